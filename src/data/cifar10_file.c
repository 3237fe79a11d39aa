/* cifar10_file.c - checking CIFAR-10's binary batches. */
#include "data/cifar10_file.h"

weir_err weir_records_check(const char *name, const void *bytes, size_t n, uint64_t *count)
{
    const unsigned char *label = bytes;
    uint64_t records = n / WEIR_RECORD_BYTES;

    if (!n || n % WEIR_RECORD_BYTES)
        return weir_fail(WEIR_INVALID,
                         "%s: %zu bytes were found, a multiple of %d was expected: %s", name, n,
                         WEIR_RECORD_BYTES, n ? "its last record is cut short" : "it is empty");
    for (uint64_t i = 0; i < records; i++, label += WEIR_RECORD_BYTES)
        if (*label >= WEIR_RECORD_CLASSES)
            return weir_fail(WEIR_INVALID,
                             "%s: record %llu (from 0) has the label %d; 0 to %d was expected",
                             name, (unsigned long long)i, *label, WEIR_RECORD_CLASSES - 1);
    *count = records;
    return WEIR_OK;
}
