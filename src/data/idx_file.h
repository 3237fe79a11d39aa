/* idx_file.h - an array of numbers as it lies in an IDX file: two zero bytes, a type (08 unsigned
 * byte, 0C int32, 0D float32), the number of dimensions, each as a big-endian 32-bit number, then
 * the values, big-endian, row-major. The values stay as they are, so that a set takes no more
 * memory than its file; they become floats when a sample is asked for. */
#ifndef WEIR_DATA_IDX_FILE_H
#define WEIR_DATA_IDX_FILE_H
#include "core/arena.h"
#include "core/err.h"

enum { WEIR_ARRAY_CLASSES = 1000001 }; /* that labels may have */
typedef enum { WEIR_ARRAY_U8 = 0x08, WEIR_ARRAY_I32 = 0x0C, WEIR_ARRAY_F32 = 0x0D } weir_array_type;

typedef struct weir_array {
    const char *name; /* the file's, for messages */
    weir_array_type type;
    int dims;
    uint64_t dim[4];
    uint64_t width; /* values behind one place of dim[0] */
    const unsigned char *value;
} weir_array;

/* Reads bytes that may be anything; `a` points into them and to `name`. WEIR_INVALID: another
 * magic, no or too many dimensions, one that is 0, fewer or more bytes than they promise, a float
 * that is not finite. */
weir_err weir_array_parse(const char *name, const void *bytes, size_t n, weir_array *a);
/* Finds, reads and parses the one file in `dir` whose name begins with the word (files.h); `wanted`
 * is how a sentence calls it. Its bytes are the caller's to free, also if they are wrong. */
weir_err weir_array_load(const char *dir, const char *word, const char *wanted, weir_arena *,
                         char **bytes, weir_array *);
/* Whether `label` holds one class for each of the array's samples, from 0 to *classes - 1; or,
 * where that is 0, to 1,000,000: then *classes becomes the largest + 1. */
weir_err weir_array_labels(const weir_array *samples, const weir_array *label, int64_t *classes);
/* Value i; weir_array_int: of whole numbers only. */
double weir_array_number(const weir_array *, uint64_t i);
int32_t weir_array_int(const weir_array *, uint64_t i);
/* Of shape and values; chained behind `seed`. */
uint64_t weir_array_hash(const weir_array *, uint64_t seed);
#endif
