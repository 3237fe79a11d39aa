/* rice.c - see rice.h. */
#include "codec/rice.h"
#include <math.h>
#include <string.h>

enum { MOST_BITS = 30, SEEN = 56 /* bits that one look shows at least */, FOUR = 4 };

/* Of a geometric gap with mean 1/D, b + 1 + what the ones take: the mean of gap >> b. */
static double bits_at(double density, int b)
{
    double stay = -expm1(exp2(b) * log1p(-density)); /* 1 - (1 - D)^(2^b) */

    return b + 1 / stay;
}

static double density_of(size_t n, size_t count) { return n ? (double)count / (double)n : 1; }

int weir_rice_fit(size_t n, size_t count)
{
    double density = density_of(n, count);
    int b = 0;

    if (density <= 0 || density >= 1)
        return 0;
    while (b < MOST_BITS && bits_at(density, b + 1) < bits_at(density, b))
        b++;
    return b;
}

double weir_rice_bits(size_t n, size_t count)
{
    double density = density_of(n, count);

    return 1 + (density < 1 && density > 0 ? bits_at(density, weir_rice_fit(n, count)) : 1);
}

/* ---- writing ---- */

/* Fewer than 8 bits wait between words; whole bytes leave. */
typedef struct writer {
    unsigned char *at, *end;
    uint64_t bits;
    unsigned n;
} writer;

/* At most 56 bits, where there is room for 8 bytes. */
static inline void put(writer *w, uint64_t bits, unsigned n)
{
    w->bits |= bits << w->n;
    w->n += n;
    memcpy(w->at, &w->bits, 8);
    w->at += w->n / 8;
    w->bits >>= w->n & ~7u;
    w->n &= 7;
}

static bool put_slowly(writer *w, uint64_t bits, unsigned n)
{
    w->bits |= bits << w->n;
    for (w->n += n; w->n >= 8; w->n -= 8, w->bits >>= 8) {
        if (w->at == w->end)
            return false;
        *w->at++ = (unsigned char)w->bits;
    }
    return true;
}

/* So many ones and a zero, then n bits more. */
static bool put_word(writer *w, uint64_t ones, uint64_t rest, unsigned n)
{
    if (ones + 1 + n <= SEEN && w->end - w->at >= 8) {
        put(w, ((1ull << ones) - 1) | rest << (ones + 1), (unsigned)ones + 1 + n);
        return true;
    }
    for (; ones >= 32; ones -= 32)
        if (!put_slowly(w, UINT32_MAX, 32))
            return false;
    return put_slowly(w, (1ull << ones) - 1, (unsigned)ones + 1) && put_slowly(w, rest, n);
}

size_t weir_rice_write(const uint32_t *word, size_t count, int b, unsigned char *to, size_t room)
{
    writer w = {to, to + room, 0, 0};
    uint64_t before = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t gap = (word[i] >> 1) - before;
        before = word[i] >> 1;
        if (!put_word(&w, gap >> b, (gap & ((1ull << b) - 1)) | (uint64_t)(word[i] & 1) << b, (unsigned)b + 1))
            return 0;
    }
    return w.n && !put_slowly(&w, 0, 8 - w.n) ? 0 : (size_t)(w.at - to);
}

/* ---- reading ---- */

weir_rice weir_rice_begin(const unsigned char *at, size_t bytes, int b) { return (weir_rice){at, bytes, 0, b, 0}; }

/* The next bits, at least SEEN of them, turned over, so that the first one ends a run; behind them zeros. Whether there are so many. */
static inline bool look(const weir_rice *r, uint64_t *bits)
{
    if ((r->bit >> 3) + 8 > r->bytes)
        return false;
    memcpy(bits, r->at + (r->bit >> 3), 8);
    *bits = ~*bits >> (r->bit & 7);
    return true;
}

/* So many words at one look, without a branch; unless they are too long for it. */
static inline bool read_some(weir_rice *r, uint32_t *word, int some)
{
    uint64_t bits, place = r->place, mask = (1ull << r->b) - 1;
    unsigned used = 0, b = (unsigned)r->b;

    if (!look(r, &bits))
        return false;
    for (int k = 0; k < some; k++) {
        unsigned ones = (unsigned)__builtin_ctzll(bits | 1ull << 63);
        bits >>= ones;
        uint64_t rest = ~bits >> 1;
        bits >>= b + 2;
        used += ones + b + 2;
        place += ((uint64_t)ones << b) + (rest & mask);
        word[k] = (uint32_t)(place << 1) | (rest >> b & 1);
    }
    if (used > SEEN)
        return false;
    r->bit += used;
    r->place = place;
    return true;
}

static unsigned next_bit(weir_rice *r)
{
    unsigned bit = r->bit >> 3 >= r->bytes ? 0 : r->at[r->bit >> 3] >> (r->bit & 7) & 1;

    r->bit++;
    return bit;
}

/* Bit by bit, where a word is long or the bytes end. */
static bool read_slowly(weir_rice *r, size_t n, uint32_t *word)
{
    uint64_t high = 0, low = 0;

    while (next_bit(r))
        if (++high > n >> r->b)
            return false; /* more ones than any place needs */
    for (int k = 0; k < r->b; k++)
        low |= (uint64_t)next_bit(r) << k;
    r->place += high << r->b | low;
    *word = (uint32_t)(r->place << 1) | next_bit(r);
    return r->bit <= 8 * (uint64_t)r->bytes;
}

bool weir_rice_read(weir_rice *r, size_t n, uint32_t *word, size_t count)
{
    bool short_ones = FOUR * (r->b + 2) <= SEEN;
    size_t i = 0;

    while (i < count) {
        if (short_ones && count - i >= FOUR && read_some(r, word + i, FOUR))
            i += FOUR;
        else if (read_some(r, word + i, 1) || read_slowly(r, n, word + i))
            i++;
        else
            return false;
        if (r->place >= n)
            return false;
    }
    return true;
}
