/* fuzz_cifar10.c - any bytes as a binary batch of CIFAR-10: what is let through is whole records of
 * known classes. */
#include "data/cifar10_file.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    unsigned char *bytes = copy(data, n);
    uint64_t count = 0;

    if (!weir_records_check("batch", bytes, n, &count)) {
        check(count > 0 && count * WEIR_RECORD_BYTES == n);
        for (uint64_t i = 0; i < count; i++)
            check(bytes[i * WEIR_RECORD_BYTES] < WEIR_RECORD_CLASSES);
    }
    free(bytes);
    return 0;
}
