/* fuzz.h - what the fuzzers of data share. */
#ifndef FUZZ_H
#define FUZZ_H
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline void check(bool holds)
{
    if (!holds)
        abort();
}

/* A copy of just the right size, so that one byte too far is seen. */
static inline void *copy(const uint8_t *from, size_t n)
{
    void *to = malloc(n ? n : 1);

    check(to);
    return memcpy(to, from, n);
}

/* Two bytes of the input as a number; false: there are none left. */
static inline bool take(const uint8_t **data, size_t *n, size_t *number)
{
    if (*n < 2)
        return false;
    *number = (size_t)(*data)[0] << 8 | (*data)[1];
    *data += 2;
    *n -= 2;
    return true;
}
#endif
