/* json.c - jansson behind a few verbs.
 *
 * An object of ours has one reference. A put that fails takes a second one: that is how the object
 * remembers until weir_json_text, without memory that could be out too. */
#include "core/json.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 32 };

weir_json *weir_json_object(void) { return json_object(); }
weir_json *weir_json_array(void) { return json_array(); }

static bool broken(const weir_json *j) { return !j || j->refcount > 1; }

static void mark(weir_json *j)
{
    if (j && j->refcount == 1)
        json_incref(j);
}

void weir_json_free(weir_json *j)
{
    if (j && broken(j))
        json_decref(j);
    json_decref(j);
}

/* takes the value, which may be NULL for want of memory */
static void put(weir_json *j, const char *key, json_t *value)
{
    if (json_object_set_new(j, key, value))
        mark(j);
}

/* Bytes that are not UTF-8 (a path may hold any) become '?': half a truth is better than no line in
 * the log. */
static json_t *any_text(const char *text)
{
    json_t *made = json_string(text);
    char *clean;

    if (made || !(clean = strdup(text)))
        return made;
    for (char *c = clean; *c; c++)
        if (*c & 0x80)
            *c = '?';
    made = json_string(clean);
    free(clean);
    return made;
}

void weir_json_put_text(weir_json *j, const char *key, const char *value)
{
    put(j, key, any_text(value));
}
void weir_json_put_int(weir_json *j, const char *key, int64_t value)
{
    put(j, key, json_integer(value));
}
void weir_json_put_bool(weir_json *j, const char *key, bool value)
{
    put(j, key, json_boolean(value));
}

void weir_json_put_real(weir_json *j, const char *key, double value)
{
    put(j, key, isfinite(value) ? json_real(value) : json_null());
}

void weir_json_put(weir_json *j, const char *key, weir_json *value)
{
    if (!broken(value)) {
        put(j, key, value);
        return;
    }
    weir_json_free(value);
    mark(j);
}

void weir_json_add_int(weir_json *array, int64_t value)
{
    if (json_array_append_new(array, json_integer(value)))
        mark(array);
}

void weir_json_add_text(weir_json *array, const char *value)
{
    if (json_array_append_new(array, any_text(value)))
        mark(array);
}

void weir_json_add_real(weir_json *array, double value)
{
    if (json_array_append_new(array, isfinite(value) ? json_real(value) : json_null()))
        mark(array);
}

void weir_json_add(weir_json *array, weir_json *value)
{
    if (!broken(value)) {
        if (json_array_append_new(array, value))
            mark(array);
        return;
    }
    weir_json_free(value);
    mark(array);
}

bool weir_json_add_bytes(weir_json *array, const char *bytes, size_t n)
{
    json_t *text = memchr(bytes, 0, n) ? NULL : json_stringn(bytes, n);

    if (text && json_array_append_new(array, text))
        mark(array);
    return text;
}

static char *write_text(const weir_json *j, int digits)
{
    size_t flags = JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(digits);

    return broken(j) ? NULL : json_dumps(j, flags);
}

/* nine digits give every float back, seventeen every double */
char *weir_json_text(const weir_json *j) { return write_text(j, 9); }
char *weir_json_text_exact(const weir_json *j) { return write_text(j, 17); }

/* ---- reading ---- */

/* The parser recurses, on stacks that may be small: count brackets first. */
static bool too_deep(const char *text, size_t n)
{
    int depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < n && depth <= DEPTH; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted)
            depth += (text[i] == '{' || text[i] == '[') - (text[i] == '}' || text[i] == ']');
    }
    return depth > DEPTH;
}

weir_err weir_json_parse(const char *text, size_t n, const char *what, weir_json **made)
{
    json_error_t e;
    json_t *j;

    if (too_deep(text, n))
        return weir_fail(WEIR_INVALID, "%s: JSON nested deeper than %d", what, DEPTH);
    if (!(j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e)))
        return weir_fail(WEIR_INVALID, "%s: not valid JSON: line %d, column %d: %s", what, e.line,
                         e.column, e.text);
    *made = j;
    return WEIR_OK;
}

bool weir_json_is_object(const weir_json *j) { return json_is_object(j); }
const weir_json *weir_json_get(const weir_json *j, const char *key)
{
    return json_object_get(j, key);
}

bool weir_json_get_text(const weir_json *j, const char *key, const char **value)
{
    const char *text = json_string_value(json_object_get(j, key));

    if (text)
        *value = text;
    return text;
}

static bool take_int(const json_t *found, int64_t *value)
{
    if (!json_is_integer(found))
        return false;
    *value = json_integer_value(found);
    return true;
}

bool weir_json_get_int(const weir_json *j, const char *key, int64_t *value)
{
    return take_int(json_object_get(j, key), value);
}

static bool take_real(const json_t *found, double *value)
{
    if (!json_is_number(found))
        return false;
    *value = json_number_value(found);
    return true;
}

bool weir_json_get_real(const weir_json *j, const char *key, double *value)
{
    return take_real(json_object_get(j, key), value);
}

size_t weir_json_length(const weir_json *array) { return json_array_size(array); }

bool weir_json_int_at(const weir_json *array, size_t i, int64_t *value)
{
    return take_int(json_array_get(array, i), value);
}

bool weir_json_real_at(const weir_json *array, size_t i, double *value)
{
    return take_real(json_array_get(array, i), value);
}

const weir_json *weir_json_at(const weir_json *array, size_t i) { return json_array_get(array, i); }

bool weir_json_bytes_at(const weir_json *array, size_t i, const char **bytes, size_t *n)
{
    const json_t *found = json_array_get(array, i);

    if (!json_is_string(found))
        return false;
    *bytes = json_string_value(found);
    *n = json_string_length(found);
    return true;
}

weir_err weir_json_each(const weir_json *j,
                        weir_err (*each)(void *, const char *key, const weir_json *), void *arg)
{
    json_t *object = (json_t *)j; /* jansson's iterators want it so; nothing is changed */

    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
        WEIR_TRY(each(arg, json_object_iter_key(at), json_object_iter_value(at)));
    return WEIR_OK;
}
