/* table.c - reading comma-separated numbers. */
#include "data/table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 63 };

typedef struct field {
    const char *at;
    size_t n;
} field;

typedef struct reader {
    weir_table *table;
    const char *at, *end;  /* the rest of the text */
    const char *rest, *to; /* the rest of the line; NULL: no more fields */
    uint64_t line, column, room;
} reader;

/* ---- lines and fields ---- */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The next line with something in it. */
static bool next_line(reader *r)
{
    while (r->at < r->end) {
        const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at)),
                   *next = end ? end + 1 : r->end;
        r->rest = r->at;
        r->to = end ? end : r->end;
        r->at = next;
        r->line++;
        r->column = 0;
        while (r->to > r->rest && is_blank(r->to[-1]))
            r->to--;
        if (r->rest < r->to)
            return true;
    }
    return false;
}

/* Past the quote that ends it; two quotes stand for one. */
static const char *skip_quoted(const char *at, const char *end)
{
    for (at++; at < end; at++)
        if (*at == '"' && (++at == end || *at != '"'))
            return at;
    return end;
}

static bool next_field(reader *r, field *f)
{
    const char *at = r->rest, *end;

    if (!at)
        return false;
    while (at < r->to && is_blank(*at))
        at++;
    end = at < r->to && *at == '"' ? skip_quoted(at, r->to) : at;
    while (end < r->to && *end != ',')
        end++;
    r->rest = end < r->to ? end + 1 : NULL;
    while (end > at && is_blank(end[-1]))
        end--;
    *f = end - at > 1 && *at == '"' && end[-1] == '"' ? (field){at + 1, (size_t)(end - at - 2)}
                                                      : (field){at, (size_t)(end - at)};
    r->column++;
    return true;
}

static bool is_number(const field *f, double *x)
{
    char text[DIGITS + 1], *end;

    if (!f->n || f->n > DIGITS)
        return false;
    for (size_t i = 0; i < f->n; i++)
        if (!memchr("0123456789+-.eE", f->at[i], 15))
            return false;
    memcpy(text, f->at, f->n);
    text[f->n] = 0;
    *x = strtod(text, &end);
    return !*end && end > text;
}

static weir_err parse_field(const reader *r, const field *f, double *x)
{
    unsigned long long line = r->line, column = r->column;
    double made;

    if (!f->n)
        return weir_fail(WEIR_INVALID,
                         "%s: line %llu, column %llu: the field is empty; a number was expected",
                         r->table->name, line, column);
    if (!is_number(f, &made))
        return weir_fail(WEIR_INVALID,
                         "%s: line %llu, column %llu: '%.*s' was found; a number was expected%s",
                         r->table->name, line, column, f->n > 60 ? 60 : (int)f->n, f->at,
                         r->table->rows ? "" : " (header=yes takes the first line as names)");
    if (!(fabs(made) <= 1e100))
        return weir_fail(WEIR_INVALID,
                         "%s: line %llu, column %llu: %g is too large; up to 1e100 was expected",
                         r->table->name, line, column, made);
    *x = made;
    return WEIR_OK;
}

/* ---- the table ---- */

/* Room for one more row: the tables double. */
static weir_err grow(reader *r)
{
    weir_table *t = r->table;
    uint64_t room = r->room ? 2 * r->room : 64;
    void *made;

    if (t->rows < r->room)
        return WEIR_OK;
    if (!(made = reallocarray(t->line, room, sizeof *t->line)))
        return weir_fail_nomem(room * sizeof *t->line);
    t->line = made;
    if (!(made = reallocarray(t->value, room, t->cols * sizeof *t->value)))
        return weir_fail_nomem(room * t->cols * sizeof *t->value);
    t->value = made;
    r->room = room;
    return WEIR_OK;
}

static weir_err parse_row(reader *r)
{
    weir_table *t = r->table;
    field f;

    WEIR_TRY(grow(r));
    while (next_field(r, &f)) {
        if (r->column > t->cols)
            break;
        WEIR_TRY(parse_field(r, &f, &t->value[t->rows * t->cols + r->column - 1]));
    }
    if (r->column != t->cols)
        return weir_fail(WEIR_INVALID,
                         "%s: line %llu, column %llu: it is %s; %llu columns were expected, as in "
                         "the first line",
                         t->name, (unsigned long long)r->line,
                         (unsigned long long)(r->column < t->cols ? r->column + 1 : r->column),
                         r->column < t->cols ? "missing" : "one too many",
                         (unsigned long long)t->cols);
    t->line[t->rows++] = r->line;
    return WEIR_OK;
}

/* How many columns the line has, and how many of them are numbers. */
static void measure(reader r, uint64_t *columns, uint64_t *numbers)
{
    field f;
    double x;

    for (*columns = *numbers = 0; next_field(&r, &f); ++*columns)
        *numbers += is_number(&f, &x);
}

static weir_err parse(reader *r, weir_table_header header)
{
    weir_table *t = r->table;
    uint64_t numbers;

    if (!next_line(r))
        return weir_fail(WEIR_INVALID, "%s: it is empty; rows of numbers were expected", t->name);
    measure(*r, &t->cols, &numbers);
    if (t->cols < 2)
        return weir_fail(WEIR_INVALID,
                         "%s: line %llu: %llu column was found; inputs and a target, parted by "
                         "commas, were expected",
                         t->name, (unsigned long long)r->line, (unsigned long long)t->cols);
    if (header == WEIR_TABLE_HEADER_NO || (header == WEIR_TABLE_HEADER_AUTO && numbers))
        WEIR_TRY(parse_row(r));
    while (next_line(r))
        WEIR_TRY(parse_row(r));
    return t->rows ? WEIR_OK : weir_fail(WEIR_INVALID, "%s: it has a header and no rows", t->name);
}

weir_err weir_table_parse(const char *name, const char *text, size_t n, weir_table_header header,
                          weir_table *table)
{
    weir_table made = {.name = name};
    reader r = {.table = &made, .at = text, .end = text + n};
    weir_err err;

    if (n >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) /* what some programs put before UTF-8 */
        r.at += 3;
    if ((err = parse(&r, header)))
        weir_table_free(&made);
    else
        *table = made;
    return err;
}

void weir_table_free(weir_table *t)
{
    free(t->value);
    free(t->line);
    t->value = NULL;
    t->line = NULL;
}
