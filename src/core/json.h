/* json.h - JSON objects, one level deep or read from a file; only json.c knows the library behind
 * it. */
#ifndef WEIR_CORE_JSON_H
#define WEIR_CORE_JSON_H
#include "core/err.h"

/* owned by the caller until weir_json_free, or until put into another */
typedef struct json_t weir_json;

weir_json *weir_json_object(void);
weir_json *weir_json_array(void);
void weir_json_free(weir_json *);
/* Out of memory is remembered by the writer: weir_json_text then fails. Numbers that are not finite
 * become null. */
void weir_json_put_text(weir_json *, const char *key, const char *value);
void weir_json_put_int(weir_json *, const char *key, int64_t value);
void weir_json_put_real(weir_json *, const char *key, double value);
void weir_json_put_bool(weir_json *, const char *key, bool value);
void weir_json_put(weir_json *, const char *key, weir_json *value);
void weir_json_add_int(weir_json *array, int64_t value);
void weir_json_add_text(weir_json *array, const char *value);
void weir_json_add_real(weir_json *array, double value);
void weir_json_add(weir_json *array, weir_json *value);
/* n bytes as a text; false, and nothing was added: they are not UTF-8, or hold a 0. */
bool weir_json_add_bytes(weir_json *array, const char *bytes, size_t n);
/* Compact, keys in the order they were put; malloc'ed. NULL: out of memory. */
char *weir_json_text(const weir_json *);
/* The same with all digits of a double: who reads it has the same numbers. */
char *weir_json_text_exact(const weir_json *);

/* Reads n bytes of hostile text; `what` names them in the error (WEIR_INVALID). Depth is
 * bounded. */
weir_err weir_json_parse(const char *text, size_t n, const char *what, weir_json **);
bool weir_json_is_object(const weir_json *);
const weir_json *weir_json_get(const weir_json *, const char *key); /* NULL: not there */
bool weir_json_get_text(const weir_json *, const char *key, const char **);
bool weir_json_get_int(const weir_json *, const char *key, int64_t *);
bool weir_json_get_real(const weir_json *, const char *key, double *);
size_t weir_json_length(const weir_json *array);
bool weir_json_int_at(const weir_json *array, size_t i, int64_t *);
bool weir_json_real_at(const weir_json *array, size_t i, double *);
bool weir_json_bytes_at(const weir_json *array, size_t i, const char **, size_t *n); /* a text's */
const weir_json *weir_json_at(const weir_json *array, size_t i);
/* Calls `each` for every key in order until it fails. */
weir_err weir_json_each(const weir_json *,
                        weir_err (*each)(void *, const char *key, const weir_json *), void *);
#endif
