/* expr.c - recursive descent, with a bound on the depth. */
#include "nn/expr.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH = 32, SHOWN = 60 };

typedef struct cursor {
    const char *text, *at;
    const weir_scope *scope;
    int depth;
} cursor;

static weir_err sum(cursor *, int64_t *);

static weir_err too_large(void)
{
    return weir_fail(WEIR_INVALID, "the value does not fit into 32 bits");
}

static weir_err number(cursor *c, int64_t *value)
{
    const char *begin = c->at;
    int64_t v = 0;

    for (; isdigit((unsigned char)*c->at); c->at++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *c->at - '0', &v))
            return c->at = begin, too_large();
    *value = v;
    return WEIR_OK;
}

static weir_err name(cursor *c, int64_t *value)
{
    const weir_scope *s = c->scope;
    size_t len = 0, n = 0;
    char known[400] = "";

    while (isalnum((unsigned char)c->at[len]) || c->at[len] == '_')
        len++;
    for (int i = 0; i < s->sizes; i++)
        if (strlen(s->size[i].name) == len && !strncmp(s->size[i].name, c->at, len)) {
            c->at += len;
            *value = s->size[i].value;
            return WEIR_OK;
        }
    for (int i = 0; i < s->sizes && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", s->size[i].name);
    return weir_fail(WEIR_INVALID, "there is no size '%.*s' here; there is %s",
                     len > SHOWN ? SHOWN : (int)len, c->at, known);
}

static weir_err bracket(cursor *c, int64_t *value)
{
    c->at++;
    WEIR_TRY(sum(c, value));
    if (*c->at != ')')
        return weir_fail(WEIR_INVALID, "a ')' was expected");
    c->at++;
    return WEIR_OK;
}

static weir_err atom(cursor *c, int64_t *value)
{
    if (isdigit((unsigned char)*c->at))
        return number(c, value);
    if (isalpha((unsigned char)*c->at))
        return name(c, value);
    if (*c->at == '(')
        return bracket(c, value);
    if (*c->at == '%' && c->scope->repetition > 0)
        return c->at++, *value = c->scope->repetition, WEIR_OK;
    if (*c->at == '%')
        return weir_fail(WEIR_INVALID,
                         "%% is the number of the repetition, and only known inside a repeat");
    if (!*c->at)
        return weir_fail(WEIR_INVALID, "a number or a size was expected, and the word ends");
    return weir_fail(WEIR_INVALID, "a number or a size was expected, not '%c'", *c->at);
}

/* One level of the grammar that nests: signs and brackets. */
static weir_err factor(cursor *c, int64_t *value)
{
    weir_err err;

    if (++c->depth > DEPTH)
        return weir_fail(WEIR_INVALID, "the expression nests deeper than %d", DEPTH);
    if (*c->at == '-') {
        c->at++;
        err = factor(c, value);
        if (!err && __builtin_sub_overflow(0, *value, value))
            err = too_large();
    } else {
        err = atom(c, value);
    }
    c->depth--;
    return err;
}

static weir_err product(cursor *c, int64_t *value)
{
    int64_t right;

    WEIR_TRY(factor(c, value));
    while (*c->at == '*' || *c->at == '/') {
        const char *sign = c->at++;
        WEIR_TRY(factor(c, &right));
        if (*sign == '/' && !right)
            return c->at = sign, weir_fail(WEIR_INVALID, "division by zero");
        if (*sign == '/' ? right == -1 && *value == INT64_MIN
                         : __builtin_mul_overflow(*value, right, value))
            return c->at = sign, too_large();
        if (*sign == '/')
            *value /= right;
    }
    return WEIR_OK;
}

static weir_err sum(cursor *c, int64_t *value)
{
    int64_t right;

    WEIR_TRY(product(c, value));
    while (*c->at == '+' || *c->at == '-') {
        const char *sign = c->at++;
        WEIR_TRY(product(c, &right));
        if (*sign == '+' ? __builtin_add_overflow(*value, right, value)
                         : __builtin_sub_overflow(*value, right, value))
            return c->at = sign, too_large();
    }
    return WEIR_OK;
}

weir_err weir_expr(const char *text, const weir_scope *scope, int64_t *value, size_t *at)
{
    cursor c = {text, text, scope, 0};
    int64_t v;
    weir_err err = sum(&c, &v);

    if (!err && *c.at)
        err = weir_fail(WEIR_INVALID, "'%c' has no place in an expression", *c.at);
    if (!err && (v > INT32_MAX || v < INT32_MIN)) {
        c.at = text;
        err = too_large();
    }
    if (err)
        *at = (size_t)(c.at - text);
    else
        *value = v;
    return err;
}
