/* rice.c - see rice.h. */
#include "codec/rice.h"
#include <math.h>
#include <string.h>

enum { MOST_BITS = 30, LOOK = 8 /* bytes seen at once */ };

/* Of a geometric gap with mean 1/D, b + 1 + what the zeros take: the mean of gap >> b. */
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

static size_t lows_bytes(size_t count, int b) { return (count * ((size_t)b + 1) + 7) / 8; }

/* Bits wait here until they are eight bytes. */
typedef struct writer {
    unsigned char *at;
    uint64_t bits;
    unsigned n; /* below 64 */
} writer;

static inline void put(writer *w, uint64_t bits, unsigned n) /* n at most 32 */
{
    w->bits |= bits << w->n;
    if (w->n + n >= 64) {
        memcpy(w->at, &w->bits, LOOK);
        w->at += LOOK;
        w->bits = bits >> (64 - w->n); /* w->n is at least 32 */
    }
    w->n = (w->n + n) % 64;
}

static unsigned char *put_last(const writer *w)
{
    size_t bytes = (w->n + 7) / 8;

    memcpy(w->at, &w->bits, bytes);
    return w->at + bytes;
}

static void write_lows(const uint32_t *word, size_t count, int b, unsigned char *to)
{
    writer w = {to, 0, 0};
    uint32_t before = 0, mask = (1u << b) - 1;

    for (size_t i = 0; i < count; i++) {
        uint32_t index = word[i] >> 1;
        put(&w, ((index - before) & mask) | (uint64_t)(word[i] & 1) << b, (unsigned)b + 1);
        before = index;
    }
    put_last(&w);
}

/* The end of what was written; NULL: it would have been behind `end`. */
static unsigned char *write_highs(const uint32_t *word, size_t count, int b, unsigned char *to,
                                  const unsigned char *end)
{
    writer w = {to, 0, 0};
    uint32_t before = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t index = word[i] >> 1, high = (index - before) >> b;
        before = index;
        if (8 * (uint64_t)(end - w.at) < (uint64_t)w.n + high + 1)
            return NULL;
        for (; high >= 32; high -= 32)
            put(&w, 0, 32);
        put(&w, 1ull << high, high + 1);
    }
    return put_last(&w);
}

size_t weir_rice_write(const uint32_t *word, size_t count, int b, unsigned char *to, size_t room)
{
    size_t lows = lows_bytes(count, b);
    unsigned char *end;

    if (lows > room || !(end = write_highs(word, count, b, to + lows, to + room)))
        return 0;
    write_lows(word, count, b, to);
    return (size_t)(end - to);
}

/* ---- reading ---- */

_Static_assert(WEIR_RICE_GROUP == sizeof(((weir_rice_lows *)0)->shift) / sizeof(uint32_t),
               "a hand is what unrice takes");

weir_rice weir_rice_begin(const unsigned char *at, size_t bytes, size_t words, int b, size_t n)
{
    weir_rice r = {.at = at,
                   .bytes = bytes,
                   .words = words,
                   .n = n,
                   .b = b,
                   .next = lows_bytes(words, b),
                   .lows = weir_rice_lows_of(b),
                   .quant = weir_quant_best()};

    /* a look counts the eight bytes before it as passed; before the first there are none */
    r.zeros = -(uint64_t)(8 * LOOK);
    return r;
}

/* The bytes from `from` on, eight of them or, where they end, fewer and zeros. */
static inline uint64_t look(const weir_rice *r, size_t from)
{
    uint64_t bits = 0;

    if (from + LOOK <= r->bytes)
        memcpy(&bits, r->at + from, LOOK);
    else if (from < r->bytes)
        memcpy(&bits, r->at + from, r->bytes - from);
    return bits;
}

static size_t group_size(const weir_rice *r, size_t from)
{
    return r->words - from < WEIR_RICE_GROUP ? r->words - from : WEIR_RICE_GROUP;
}

/* The next high parts, each with those of all words before it: the zeros before its one. Whether
 * there are so many, none of them too high for n. */
static bool find(weir_rice *r)
{
    uint32_t *high = r->high[r->found / WEIR_RICE_GROUP % 2];
    uint64_t bits = r->look, zeros = r->zeros, sum = 0;
    size_t some = group_size(r, r->found);

    for (size_t i = 0; i < some; i++) {
        for (; !bits; r->next += LOOK, zeros += 8 * LOOK) {
            if (r->next >= r->bytes)
                return false;
            bits = look(r, r->next);
        }
        sum = zeros + (uint64_t)__builtin_ctzll(bits) - i;
        high[i] = (uint32_t)sum;
        bits &= bits - 1;
    }
    r->look = bits;
    r->zeros = zeros - some;
    r->found += some;
    return sum <= r->n >> r->b; /* the last is the highest; so none was cut to 32 bits */
}

/* Words where few bytes are left, or low parts are long. Their low parts' sum. */
static uint64_t read_slowly(const weir_rice *r, const uint32_t *high, uint32_t *word, size_t some)
{
    unsigned b = (unsigned)r->b;
    uint64_t bit = (uint64_t)r->read * (b + 1), sum = 0;

    for (size_t i = 0; i < some; i++, bit += b + 1) {
        uint64_t low = look(r, bit / 8) >> bit % 8;
        sum += low & ((1ull << b) - 1);
        word[i] = (uint32_t)((((uint64_t)high[i] << b) + r->low_sum + sum) << 1) | (low >> b & 1);
    }
    return sum;
}

bool weir_rice_read(weir_rice *r, uint32_t *word)
{
    const uint32_t *high = r->high[r->read / WEIR_RICE_GROUP % 2];
    size_t some = group_size(r, r->read), byte = r->read / WEIR_RICE_GROUP * ((size_t)r->b + 1);

    if (!some)
        return true;
    if ((r->found == r->read && !find(r)) || !find(r))
        return false;
    if (some == WEIR_RICE_GROUP && r->b <= WEIR_RICE_LOWS_BITS &&
        byte + (size_t)r->b + 1 + WEIR_RICE_LOWS_MORE <= r->bytes)
        r->low_sum += r->quant->unrice(word, high, r->at + byte, &r->lows, (uint32_t)r->low_sum);
    else
        r->low_sum += read_slowly(r, high, word, some);
    r->read += some;
    /* the last one's place is the highest */
    return ((uint64_t)high[some - 1] << r->b) + r->low_sum < r->n;
}
