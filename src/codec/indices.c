/* indices.c - see indices.h. */
#include "codec/indices.h"
#include "codec/rice.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

enum {
    SOME = WEIR_RICE_GROUP,
    NEAR = 16,
    MIDDLE = 24,
    FAR = 32,
    RING = 64,
    CHECKED = 1024,
    MOST_BITS = 30
};
_Static_assert(RING >= FAR + SOME && RING % SOME == 0 && NEAR % SOME == 0 && MIDDLE % SOME == 0 &&
                   FAR % SOME == 0 && CHECKED % SOME == 0,
               "words lie in a row, and are added before they are written over");

void weir_indices_cells_add(unsigned char *cells, int bits, size_t i, int by)
{
    unsigned at = (unsigned)(i * (size_t)bits % 8), mask = (1u << bits) - 1;
    unsigned char *byte = cells + i * (size_t)bits / 8;
    unsigned now = *byte >> at & mask;

    *byte = (unsigned char)((*byte & ~(mask << at)) | ((now + (unsigned)by) & mask) << at);
}

weir_indices weir_indices_write(const weir_indices_chosen *c, bool rice, unsigned char *to,
                                size_t room)
{
    weir_indices r = {.value = c->value, .words = (uint32_t)c->words, .valued = c->values != NULL};
    size_t bytes = 0, words = c->words;

    if (rice && words) {
        r.bits = (uint8_t)weir_rice_fit(c->n, words);
        bytes = weir_rice_write(c->word, words, r.bits, to, room < 4 * words ? room : 4 * words);
        r.how = bytes ? WEIR_INDICES_RICE : WEIR_INDICES_WORDS;
    }
    if (r.how == WEIR_INDICES_WORDS) {
        r.bits = 0;
        if (4 * words > room) {
            r.how = WEIR_INDICES_CELLS;
            return r;
        }
        if ((bytes = 4 * words)) /* of none there may be no memory */
            memcpy(to, c->word, bytes);
    }
    while (bytes % 4)
        to[bytes++] = 0;
    if (c->values) {
        memcpy(to + bytes, c->values, 4 * words);
        bytes += 4 * words;
    }
    r.bytes = (uint32_t)bytes;
    return r;
}

size_t weir_indices_usual(size_t n, size_t words, bool valued, bool rice)
{
    double bits = rice ? weir_rice_bits(n, words) : 32;

    bits = bits < 32 ? bits : 32;
    return (valued ? 4 * words : 0) + (size_t)(bits * (double)words / 32 + 1) * 4;
}

/* ---- reading ---- */

/* A part being read, some words at a time, that wait in a ring while the memory is asked for their
 * elements, which lie far apart. A core has some two dozen lines on their way at a time and forgets
 * what more it is asked for: so it is asked for each element three times, one by one between
 * additions. */
typedef struct reader {
    const weir_indices *row;
    const unsigned char *from, *values; /* values NULL: none */
    size_t n;
    float *acc;
    float value[2]; /* plus, minus */
    weir_rice rice;
    uint32_t word[RING];
} reader;

/* Words k .. k + some, and whether values from k on are finite, many at a time. */
static bool read_some(reader *r, size_t k, size_t some)
{
    uint32_t *word = r->word + k % RING;
    size_t left = r->row->words - k;

    if (r->values && k % CHECKED == 0 &&
        !weir_vec_best()->finite((const float *)(const void *)(r->values + 4 * k),
                                 left < CHECKED ? left : CHECKED))
        return false;
    if (r->row->how == WEIR_INDICES_RICE)
        return weir_rice_read(&r->rice, word);
    memcpy(word, r->from + 4 * k, 4 * some);
    for (size_t i = 0; i < some; i++)
        if (word[i] >> 1 >= r->n)
            return false;
    return true;
}

static inline __attribute__((always_inline)) void add(const reader *r, size_t k,
                                                      const uint32_t *word)
{
    float x = r->value[*word & 1];

    if (r->values)
        memcpy(&x, r->values + 4 * k, sizeof x);
    r->acc[*word >> 1] += x;
}

static inline __attribute__((always_inline)) void ask(const reader *r, const uint32_t *word)
{
    __builtin_prefetch(r->acc + (*word >> 1));
}

/* SOME words from k on, those behind them asked for. */
static void add_some(const reader *r, size_t k)
{
    const uint32_t *now = r->word + k % RING, *near = r->word + (k + NEAR) % RING,
                   *middle = r->word + (k + MIDDLE) % RING, *far = r->word + (k + FAR) % RING;

    for (size_t i = 0; i < SOME; i++) {
        ask(r, far + i);
        ask(r, middle + i);
        ask(r, near + i);
        add(r, k + i, now + i);
    }
}

static bool add_words(reader *r)
{
    size_t words = r->row->words, k = 0, added;

    for (; k < words; k += SOME) {
        if (!read_some(r, k, words - k < SOME ? words - k : SOME))
            return false;
        if (k >= FAR && words - k >= SOME)
            add_some(r, k - FAR);
    }
    added = words / SOME * SOME;
    for (added = added > FAR ? added - FAR : 0; added < words; added++)
        add(r, added, r->word + added % RING);
    return true;
}

static bool add_cells(const weir_indices *row, const unsigned char *from, size_t n, float *acc)
{
    unsigned w = row->bits, half;

    if ((w != 2 && w != 4 && w != 8) || row->bytes != weir_indices_cells_bytes(n, (int)w) ||
        row->valued)
        return false;
    half = 1u << (w - 1);
    for (size_t i = 0; i < n; i++) {
        unsigned cell = from[i * w / 8] >> i * w % 8 & (2 * half - 1);
        if (cell)
            acc[i] += (float)((int)(cell ^ half) - (int)half) * row->value;
    }
    return true;
}

static bool add_part(const weir_indices *row, const unsigned char *from, size_t n, float *acc)
{
    size_t values = row->valued ? 4 * (size_t)row->words : 0;
    reader r = {.row = row, .from = from, .n = n, .acc = acc, .value = {row->value, -row->value}};

    if (!isfinite(row->value) || row->valued > 1 || row->bits > MOST_BITS || row->bytes % 4 ||
        values > row->bytes)
        return false;
    if (row->how == WEIR_INDICES_CELLS)
        return add_cells(row, from, n, acc);
    if (row->how > WEIR_INDICES_CELLS ||
        (row->how == WEIR_INDICES_WORDS && row->bytes - values != 4 * (uint64_t)row->words))
        return false;
    if (row->valued)
        r.values = from + row->bytes - values;
    r.rice = weir_rice_begin(from, row->bytes - values, row->words, row->bits, n);
    return add_words(&r);
}

weir_err weir_indices_decode(const weir_codec *codec, const weir_bucket *b, const void *msg,
                             size_t len, float *acc)
{
    const unsigned char *body, *from;
    size_t bytes, head = (size_t)b->views * sizeof(weir_indices);

    WEIR_TRY(weir_message_open(msg, len, codec, b->n, &body, &bytes));
    if (bytes < head)
        return weir_message_bad(codec, "it ends among its tensors");
    from = body + head;
    for (int v = 0; v < b->views; v++) {
        const weir_view *w = &b->view[v];
        weir_indices row;
        memcpy(&row, body + (size_t)v * sizeof row, sizeof row);
        if (row.bytes > (size_t)(body + bytes - from) ||
            !add_part(&row, from, w->rows * w->cols, acc + w->at))
            return weir_message_bad(codec, w->tensor->name);
        from += row.bytes;
    }
    return from == body + bytes ? WEIR_OK : weir_message_bad(codec, "it is too long");
}
