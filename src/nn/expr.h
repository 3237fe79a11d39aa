/* expr.h - whole-number expressions of model files: numbers, names, + - * / ( ) and %, the number
 * of the repetition in a repeat. */
#ifndef WEIR_NN_EXPR_H
#define WEIR_NN_EXPR_H
#include "core/err.h"

typedef struct weir_size {
    const char *name;
    int64_t value;
} weir_size;

typedef struct weir_scope {
    const weir_size *size;
    int sizes;
    int64_t repetition; /* 0: outside of any repeat */
} weir_scope;

/* Text is hostile. Numbers and intermediate values stay within 64 bits, the result within -2^31 ..
 * 2^31 - 1; division rounds towards 0. On WEIR_INVALID, *at is the offset of what was wrong. */
weir_err weir_expr(const char *text, const weir_scope *, int64_t *value, size_t *at);
#endif
