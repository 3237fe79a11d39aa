/* rice.c - see rice.h. */
#include "codec/rice.h"
#include <math.h>
#include <string.h>

enum { MOST_BITS = 30, SEEN = 56 /* bits that one look shows at least */ };

/* Of a geometric gap with mean 1/D, b + 1 + what the ones take: the mean of gap >> b. */
static double bits_at(double density, int b)
{
    double stay = -expm1(exp2(b) * log1p(-density)); /* 1 - (1 - D)^(2^b) */

    return b + 1 / stay;
}

int weir_rice_fit(size_t n, size_t count)
{
    double density = n ? (double)count / (double)n : 1;
    int b = 0;

    if (density <= 0)
        return 0;
    if (density >= 1)
        return 0;
    while (b < MOST_BITS && bits_at(density, b + 1) < bits_at(density, b))
        b++;
    return b;
}

typedef struct writer {
    unsigned char *at, *end;
    uint64_t bits;
    int n;
} writer;

/* At most 32 bits at a time. */
static bool put(writer *w, uint64_t bits, int n)
{
    w->bits |= bits << w->n;
    w->n += n;
    if (w->n < 32)
        return true;
    if (w->end - w->at < 4)
        return false;
    uint32_t low = (uint32_t)w->bits;
    memcpy(w->at, &low, 4);
    w->at += 4;
    w->bits >>= 32;
    w->n -= 32;
    return true;
}

static bool put_ones(writer *w, uint64_t n)
{
    for (; n >= 24; n -= 24)
        if (!put(w, 0xffffff, 24))
            return false;
    return put(w, (1u << n) - 1, (int)n + 1); /* and the zero behind them */
}

size_t weir_rice_write(const uint32_t *word, size_t count, int b, unsigned char *to, size_t room)
{
    writer w = {to, to + room, 0, 0};
    uint64_t before = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t gap = (word[i] >> 1) - before;
        before = word[i] >> 1;
        if (!put_ones(&w, gap >> b) || !put(&w, (gap & ((1ull << b) - 1)) | (uint64_t)(word[i] & 1) << b, b + 1))
            return 0;
    }
    while (w.n > 0) {
        if (w.at == w.end)
            return 0;
        *w.at++ = (unsigned char)w.bits;
        w.bits >>= 8;
        w.n -= 8;
    }
    return (size_t)(w.at - to);
}

weir_rice weir_rice_begin(const unsigned char *at, size_t bytes, int b) { return (weir_rice){at, bytes, 0, b, 0}; }

static bool over(const weir_rice *r) { return r->bit >> 3 >= r->bytes; }
static unsigned next_bit(weir_rice *r)
{
    unsigned bit = over(r) ? 0 : r->at[r->bit >> 3] >> (r->bit & 7) & 1;

    r->bit++;
    return bit;
}

/* Bit by bit, where a word is long or the bytes end. */
static bool read_slowly(weir_rice *r, size_t n, uint64_t *gap, unsigned *minus)
{
    uint64_t high = 0, low = 0;

    while (next_bit(r))
        if (++high > n >> r->b)
            return false; /* more ones than any place needs */
    for (int k = 0; k < r->b; k++)
        low |= (uint64_t)next_bit(r) << k;
    *minus = next_bit(r);
    *gap = high << r->b | low;
    return r->bit <= 8 * (uint64_t)r->bytes;
}

bool weir_rice_read(weir_rice *r, size_t n, uint32_t *word, size_t count)
{
    uint64_t mask = (1ull << r->b) - 1, gap;
    unsigned minus;

    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        bool whole = (r->bit >> 3) + 8 <= r->bytes;
        if (whole)
            memcpy(&bits, r->at + (r->bit >> 3), 8);
        bits >>= r->bit & 7;
        int ones = ~bits ? __builtin_ctzll(~bits) : 64, used = ones + r->b + 2;
        if (whole && used <= SEEN) {
            gap = (uint64_t)ones << r->b | (bits >> (ones + 1) & mask);
            minus = bits >> (used - 1) & 1;
            r->bit += (unsigned)used;
        } else if (!read_slowly(r, n, &gap, &minus))
            return false;
        r->place += gap;
        if (r->place >= n)
            return false;
        word[i] = (uint32_t)(r->place << 1) | minus;
    }
    return true;
}
