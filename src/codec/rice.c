/* rice.c - see rice.h. */
#include "codec/rice.h"
#include <math.h>
#include <string.h>

enum { MOST_BITS = 30 };

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

weir_rice weir_rice_begin(const unsigned char *at, size_t bytes, int b) { return (weir_rice){at, at + bytes, 0, 0, b, 0}; }

/* At least 56 bits, or all there are. */
static void fill(weir_rice *r)
{
    if (r->end - r->at >= 8) {
        uint64_t more;
        memcpy(&more, r->at, 8);
        r->bits |= more << r->left;
        r->at += (63 - r->left) >> 3;
        r->left |= 56;
        return;
    }
    while (r->left <= 56 && r->at < r->end) {
        r->bits |= (uint64_t)*r->at++ << r->left;
        r->left += 8;
    }
}

static bool drop(weir_rice *r, int n)
{
    if (n > r->left)
        return false;
    r->bits >>= n;
    r->left -= n;
    return true;
}

/* Ones up to a zero; more of them than any place needs are none of ours. */
static bool ones(weir_rice *r, uint64_t most, uint64_t *n)
{
    uint64_t k = 0;
    int run;

    for (;;) {
        fill(r);
        run = ~r->bits ? __builtin_ctzll(~r->bits) : 64;
        if (run < r->left)
            break;
        k += (uint64_t)r->left;
        if (!r->left || k > most)
            return false;
        r->bits = 0;
        r->left = 0;
    }
    *n = k + (uint64_t)run;
    return *n <= most && drop(r, run + 1);
}

bool weir_rice_read(weir_rice *r, size_t n, uint32_t *word, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t high;
        if (!ones(r, n >> r->b, &high))
            return false;
        if (r->left <= r->b)
            fill(r);
        r->place += high << r->b | (r->bits & ((1ull << r->b) - 1));
        word[i] = (uint32_t)(r->place << 1) | (uint32_t)(r->bits >> r->b & 1);
        if (!drop(r, r->b + 1) || r->place >= n)
            return false;
    }
    return true;
}
