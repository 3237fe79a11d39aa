/* strom.c - what has grown beyond a threshold is sent as +-threshold; the rest waits (Strom 2015).
 *
 * Each tensor of the bucket has a threshold of its own. A fixed one (tau=) is Strom's; else it is read off a sample of what is to be sent, so that the
 * density aimed at passes, and lifted while most of those that are sent keep more than it back: they could not drain.
 *
 * Body: places.h, with value = threshold; an element that sends several quanta stands as often. Cells are taken where they are shorter. */
#include "codec/places.h"
#include "codec/rice.h"
#include "codec/select.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

enum { LEAST_SAMPLE = 512, SAMPLE = 16384, HITS = 16 /* of the sample, at least, if it is not too long */ };
static const float LIFT = 1.1f, SINK = 1.05f, HIGHEST = 1e6f;

typedef struct strom {
    weir_feedback feedback;
    double tau, density;
    int64_t quanta;
    int pack;
    const weir_bucket *bucket;
    int cell;          /* bits that hold a number of quanta */
    float *now, *next; /* by view: the factor on what the sample says */
    uint32_t *word, *hit;
    float *sample;
} strom;

static const weir_opt options[] = {
    WEIR_FEEDBACK("yes", "yes", "0", "0"),
    {"tau", WEIR_OPT_REAL, offsetof(strom, tau), "0", "a fixed threshold; 0: it follows the density", .min = 0, .max = 1e30},
    {"density", WEIR_OPT_REAL, offsetof(strom, density), "0.01", "share of a tensor's elements to send", .min = 1e-7, .max = 1},
    {"quanta", WEIR_OPT_INT, offsetof(strom, quanta), "1", "thresholds an element may send at once", .min = 1, .max = 127},
    {"pack", WEIR_OPT_CHOICE, offsetof(strom, pack), "rice", "how places are written, where cells are not smaller", .choices = "none|rice"},
    {0},
};

static size_t cells_bytes(const strom *s, size_t n) { return weir_cells_bytes(n, s->cell); }

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    strom *s = self;
    size_t most = weir_codec_longest(b);

    s->bucket = b;
    most = b->dry ? 0 : most;
    s->cell = s->quanta > 7 ? 8 : s->quanta > 1 ? 4 : 2;
    s->now = WEIR_NEW(arena, float, 2 * (size_t)b->views);
    s->next = s->now + b->views;
    s->word = WEIR_NEW(arena, uint32_t, cells_bytes(s, most) / 4);
    s->hit = WEIR_NEW(arena, uint32_t, WEIR_TILE);
    s->sample = WEIR_NEW(arena, float, SAMPLE);
    if (!s->now || !s->word || !s->hit || !s->sample)
        return weir_fail_nomem(cells_bytes(s, most));
    for (int v = 0; v < 2 * b->views; v++)
        s->now[v] = 1;
    return WEIR_OK;
}

static size_t bound(const void *self)
{
    const strom *s = self;
    size_t bytes = WEIR_MESSAGE_HEAD + (size_t)s->bucket->views * sizeof(weir_places);

    for (int v = 0; v < s->bucket->views; v++)
        bytes += cells_bytes(s, weir_view_length(&s->bucket->view[v]));
    return bytes;
}

static size_t usual(const void *self, weir_turn turn)
{
    const strom *s = self;
    double bytes = 0, d = weir_codec_density(&s->feedback, turn, s->density);

    for (int v = 0; v < s->bucket->views; v++) {
        double n = (double)weir_view_length(&s->bucket->view[v]), k = ceil(d * n), cells = (double)cells_bytes(s, (size_t)n);
        int b = weir_rice_fit((size_t)n, (size_t)k);
        double words = s->pack == WEIR_PLACES_WORDS ? 4 * k : k * (b + 2 + 1 / (exp2(b) * d + 1)) / 8;
        bytes += words < cells ? words : cells;
    }
    return WEIR_MESSAGE_HEAD + (size_t)s->bucket->views * sizeof(weir_places) + (size_t)bytes;
}

/* ---- encoding ---- */

/* One tensor's part being written. */
typedef struct part {
    strom *s;
    size_t n, words, over; /* over: still beyond the threshold, having sent */
    unsigned char *to;     /* cells, once there are too many words */
    bool cells;
} part;

static void to_cells(part *p)
{
    memset(p->to, 0, cells_bytes(p->s, p->n));
    for (size_t k = 0; k < p->words; k++)
        weir_cells_add(p->to, p->s->cell, p->s->word[k] >> 1, p->s->word[k] & 1 ? -1 : 1);
    p->cells = true;
}

static void push(part *p, size_t i, int quanta, bool minus)
{
    if (!p->cells && p->words + (size_t)quanta > cells_bytes(p->s, p->n) / 4)
        to_cells(p);
    if (p->cells)
        weir_cells_add(p->to, p->s->cell, i, minus ? -quanta : quanta);
    else
        for (int q = 0; q < quanta; q++)
            p->s->word[p->words + (size_t)q] = (uint32_t)i << 1 | minus;
    p->words += (size_t)quanta;
}

static void encode_tile(part *p, weir_feed *f, size_t at, size_t from, size_t n, float tau)
{
    strom *s = p->s;
    float *x = weir_feed_tile(f, at + from, n), most = (float)s->quanta;
    size_t hits = weir_vec_best()->over(x, n, tau, s->hit);

    for (size_t k = 0; k < hits; k++) {
        size_t i = s->hit[k];
        float a = fabsf(x[i]) / tau, q = a < most ? floorf(a) : most;
        bool minus = x[i] < 0;
        q = q < 1 ? 1 : q;
        x[i] -= minus ? -q * tau : q * tau;
        p->over += fabsf(x[i]) > tau;
        push(p, from + i, (int)q, minus);
        weir_feed_sent(f, at + from + i);
    }
    weir_feed_leave(f, at + from, n);
}

/* What `density` of a sample passes. */
static float quantile(strom *s, const weir_feed *f, const weir_view *v, weir_turn turn, double density)
{
    size_t most = (size_t)(HITS / density), n, k;
    float tau;

    most = most < LEAST_SAMPLE ? LEAST_SAMPLE : most > SAMPLE ? SAMPLE : most;
    n = weir_select_sample(f, v->at, weir_view_length(v), turn.step, 0, s->sample, most);
    k = (size_t)(density * (double)n + 0.5);
    tau = n ? weir_select(s->sample, n, k ? k : 1) : 0;
    return tau > 0 || !n ? tau : weir_select(s->sample, n, 1);
}

/* Most that are sent keep more than the threshold back: such as these cannot drain, and want a higher one. */
static float lifted(const part *p, float lift)
{
    float to = 2 * p->over > p->words ? lift * LIFT : lift / SINK;

    return to < 1 ? 1 : to > HIGHEST ? HIGHEST : to;
}

static weir_places finish_part(const part *p, float tau)
{
    const strom *s = p->s;

    if (!p->cells)
        return weir_places_write(s->word, p->words, p->n, NULL, tau, s->pack == WEIR_PLACES_RICE, p->to);
    return (weir_places){.value = tau, .words = (uint32_t)p->words, .how = WEIR_PLACES_CELLS, .bits = (uint8_t)s->cell, .bytes = (uint32_t)cells_bytes(s, p->n)};
}

static weir_err encode(void *self, weir_turn turn, weir_feed *f, void *msg, size_t *len)
{
    strom *s = self;
    const weir_bucket *b = s->bucket;
    double density = weir_codec_density(&s->feedback, turn, s->density);
    weir_places *rows = weir_places_rows(msg);
    unsigned char *to = (unsigned char *)(rows + b->views);

    for (int v = 0; v < b->views; v++) {
        part p = {.s = s, .n = weir_view_length(&b->view[v]), .to = to};
        float tau = s->tau > 0 ? (float)s->tau : s->now[v] * quantile(s, f, &b->view[v], turn, density);
        float least = tau > 0 ? tau : INFINITY; /* nothing to send yet */
        for (size_t k = 0; k < p.n; k += WEIR_TILE)
            encode_tile(&p, f, b->view[v].at, k, p.n - k < WEIR_TILE ? p.n - k : WEIR_TILE, least);
        rows[v] = finish_part(&p, tau);
        to += rows[v].bytes;
        s->next[v] = lifted(&p, s->now[v]);
    }
    *len = weir_message_head(msg, &weir_codec_strom, b->n, (size_t)(to - (unsigned char *)rows));
    return WEIR_OK;
}

static void keep(void *self)
{
    strom *s = self;

    memcpy(s->now, s->next, (size_t)s->bucket->views * sizeof *s->now);
}

static weir_err decode(void *self, weir_turn turn, const void *msg, size_t len, float *acc)
{
    (void)turn;
    return weir_places_decode(&weir_codec_strom, ((const strom *)self)->bucket, msg, len, acc);
}

static void told(const void *self, const void *msg, weir_told *to)
{
    const weir_bucket *b = ((const strom *)self)->bucket;
    const weir_places *row = (const weir_places *)(const void *)((const char *)msg + WEIR_MESSAGE_HEAD);

    to->sent = weir_places_sent(b, msg);
    for (int v = 0; v < b->views && to->tau; v++)
        to->tau[v] = row[v].value;
}

static weir_err state(void *self, weir_io *io)
{
    strom *s = self;

    return s->tau > 0 ? WEIR_OK : weir_bucket_keep_each(s->bucket, "lift", s->now, WEIR_KEEP_MEAN, io);
}

const weir_codec weir_codec_strom = {
    .plug = {"strom", "what grew beyond a threshold, as a place and a sign; the rest waits", sizeof(strom), options},
    .combine = WEIR_COMBINE_GATHER,
    .rounds = 1,
    .sparse = true,
    .mark = 'S',
    .drop = 0.6,
    .init = init,
    .bound = bound,
    .usual = usual,
    .encode = encode,
    .decode = decode,
    .told = told,
    .keep = keep,
    .state = state,
};
