/* cifar10_file.h - CIFAR-10's binary batches: records of a label byte, then 1,024 red, 1,024 green
 * and 1,024 blue bytes, row by row. */
#ifndef WEIR_DATA_CIFAR10_FILE_H
#define WEIR_DATA_CIFAR10_FILE_H
#include "core/err.h"

enum {
    WEIR_RECORD_SIDE = 32,
    WEIR_RECORD_PLANE = 32 * 32,
    WEIR_RECORD_PLANES = 3,
    WEIR_RECORD_BYTES = 1 + 3 * 32 * 32,
    WEIR_RECORD_CLASSES = 10
};

/* How many there are in bytes that may be anything. WEIR_INVALID: none, a piece of one, a label
 * above 9. */
weir_err weir_records_check(const char *name, const void *bytes, size_t n, uint64_t *count);
#endif
