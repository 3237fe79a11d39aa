/* strom.c - what has grown beyond a threshold is sent as +-threshold; the rest waits (Strom 2015).
 *
 * Each tensor of the bucket has a threshold of its own (per=bucket: all have one). A fixed one
 * (tau=) is Strom's; else it is read off a sample of what is to be sent, so that the density aimed
 * at passes, and lifted while most of those that are sent keep more than it back: they could not
 * drain.
 *
 * Body: indices.h, with value = threshold; an element that sends several quanta stands as often.
 * Cells are taken where they are shorter. */
#include "codec/select.h"
#include "codec/sparse.h"
#include <math.h>
#include <string.h>

static const float LIFT = 1.1f, SINK = 1.05f, HIGHEST = 1e6f;

typedef struct strom {
    weir_sparse sparse; /* its numbers: the factor on what the sample says */
    double tau;
    int64_t quanta;
    int pack, per;
    int cell; /* bits that hold a number of quanta */
    uint32_t *word;
    weir_vec_sifted tile;
    float *sample;
    bool inclusive;     /* what equals the threshold is sent, too */
    float shared;       /* per=bucket: the threshold of this step */
    size_t words, over; /* and what its parts so far have sent, and keep beyond it */
} strom;

enum { PER_TENSOR, PER_BUCKET };

static const weir_opt options[] = {
    WEIR_FEEDBACK("yes", "yes", "0.5"),
    WEIR_SPARSE_DENSITY("0.01", "0.25"),
    {"tau", WEIR_OPT_REAL, offsetof(strom, tau), "0",
     "a fixed threshold; 0: it follows the density", .min = 0, .max = 1e30},
    {"per", WEIR_OPT_CHOICE, offsetof(strom, per), "tensor", "what has a threshold of its own",
     .choices = "tensor|bucket"},
    {"quanta", WEIR_OPT_INT, offsetof(strom, quanta), "1", "thresholds an element may send at once",
     .min = 1, .max = 127},
    {"pack", WEIR_OPT_CHOICE, offsetof(strom, pack), "rice",
     "how places are written, where cells are not smaller", .choices = "none|rice"},
    {0},
};

/* Never more than the cells: words are given up when they get longer. */
static size_t room(const void *self, size_t n)
{
    return weir_indices_cells_bytes(n, ((const strom *)self)->cell);
}

/* As many words are kept before cells take over: those that are as long as the cells; by rice they
 * get shorter, so twice what the ramp begins with if that is more. */
static size_t most_words(const strom *s, size_t n)
{
    size_t plain = room(s, n) / 4,
           packed = s->pack == WEIR_INDICES_RICE ? weir_sparse_twice(&s->sparse, n) : 0;

    return plain > packed ? plain : packed;
}

static size_t usual(const void *self, size_t n, size_t k)
{
    size_t words =
               weir_indices_usual(n, k, false, ((const strom *)self)->pack == WEIR_INDICES_RICE),
           cells = room(self, n);

    return words < cells ? words : cells;
}

/* ---- encoding ---- */

/* One tensor's part being written. */
typedef struct part {
    strom *s;
    /* most: more words than this become cells; over: still beyond the threshold, having sent */
    size_t n, words, most, over;
    float tau, least;  /* what is larger than `least` is sent */
    unsigned char *to; /* cells, once there are too many words */
    bool cells;
} part;

static void to_cells(part *p)
{
    memset(p->to, 0, room(p->s, p->n));
    for (size_t k = 0; k < p->words; k++)
        weir_indices_cells_add(p->to, p->s->cell, p->s->word[k] >> 1, p->s->word[k] & 1 ? -1 : 1);
    p->cells = true;
}

static void push(part *p, uint32_t word, int quanta)
{
    if (!p->cells && p->words + (size_t)quanta > p->most)
        to_cells(p);
    if (p->cells)
        weir_indices_cells_add(p->to, p->s->cell, word >> 1, word & 1 ? -quanta : quanta);
    else
        for (int q = 0; q < quanta; q++)
            p->s->word[p->words + (size_t)q] = word;
    p->words += (size_t)quanta;
}

/* The sieve has taken one quantum of x, and left the rest; those that send several are few. How
 * many it sends. */
static int take(part *p, float x, float *left)
{
    float most = (float)p->s->quanta, a = most > 1 ? fabsf(x) / p->tau : 1,
          q = a < most ? floorf(a) : most;

    if (q > 1)
        *left = x - (x < 0 ? -q * p->tau : q * p->tau);
    else
        q = 1;
    p->over += fabsf(x - (x < 0 ? -q * p->tau : q * p->tau)) > p->tau;
    return (int)q;
}

/* The usual case: one quantum each, and room for all. */
static void push_all(part *p, const weir_vec_sifted *t, uint32_t first)
{
    uint32_t *to = p->s->word + p->words;

    for (size_t k = 0; k < t->count; k++) {
        to[k] = t->word[k] + first;
        p->over += fabsf(fabsf(t->value[k]) - p->tau) > p->tau;
    }
    p->words += t->count;
}

static void write_tile(part *p, weir_feed *f, size_t at, size_t from, size_t n)
{
    const weir_vec_sifted *t = &p->s->tile;
    float *left = weir_feed_pointer(f, at);

    weir_feed_sift(f, at + from, n, p->least, p->tau, &p->s->tile);
    if (p->s->quanta == 1 && !p->cells && p->words + t->count <= p->most) {
        push_all(p, t, (uint32_t)(from << 1));
        return;
    }
    for (size_t k = 0; k < t->count; k++) {
        uint32_t word = t->word[k] + (uint32_t)(from << 1);
        push(p, word, take(p, t->value[k], left + (word >> 1)));
    }
}

/* What the density aimed at passes, by a sample of n elements. Where that is the largest of a small
 * tensor, of one with few elements other than 0, or of one whose elements are all alike, it passes
 * itself: nothing else ever would. */
static float sampled(strom *s, const weir_feed *f, size_t at, size_t n, weir_when when,
                     double density)
{
    weir_select_from from = {.feed = f, .at = at, .n = n, .step = when.step};
    weir_select_sampled said = weir_select_level(&from, density, s->sample);

    s->inclusive = said.level <= 0 || (said.level >= said.most &&
                                       (said.index == 1 || said.mean >= 0.999f * said.most));
    return said.level > 0 ? said.level : said.most;
}

/* A bucket's is read off before its first part is sent. */
static float threshold(strom *s, const weir_feed *f, int view, weir_when when, double density)
{
    const weir_view *v = &s->sparse.bucket->view[view];

    if (s->tau > 0)
        return (float)s->tau * (f->unit > 0 ? f->unit : 1);
    if (s->per == PER_TENSOR)
        return s->sparse.now[view] * sampled(s, f, v->at, weir_view_length(v), when, density);
    if (view == 0)
        s->shared = s->sparse.now[0] * sampled(s, f, 0, s->sparse.bucket->n, when, density);
    return s->shared;
}

/* Most that are sent keep more than the threshold back: such as these cannot drain, and want a
 * higher one. */
static float lifted(size_t over, size_t words, float lift)
{
    float to = 2 * over > words ? lift * LIFT : lift / SINK;

    return to < 1 ? 1 : to > HIGHEST ? HIGHEST : to;
}

static void lift(strom *s, const part *p, int view)
{
    s->words = (s->per == PER_TENSOR || view == 0 ? 0 : s->words) + p->words;
    s->over = (s->per == PER_TENSOR || view == 0 ? 0 : s->over) + p->over;
    for (int v = s->per == PER_TENSOR ? view : 0; v <= view; v++)
        s->sparse.next[v] = lifted(s->over, s->words, s->sparse.now[v]);
}

static weir_indices write(void *self, weir_when when, weir_feed *f, int v, double density,
                          unsigned char *to)
{
    strom *s = self;
    const weir_view *view = &s->sparse.bucket->view[v];
    float tau = threshold(s, f, v, when, density);
    part p = {.s = s,
              .n = weir_view_length(view),
              .most = most_words(s, weir_view_length(view)),
              .tau = tau > 0 ? tau : INFINITY /* nothing to send yet */,
              .to = to};

    p.least = s->inclusive && tau > 0 ? nextafterf(tau, 0) : p.tau;
    for (size_t k = 0; k < p.n; k += WEIR_FEED_TILE)
        write_tile(&p, f, view->at, k, p.n - k < WEIR_FEED_TILE ? p.n - k : WEIR_FEED_TILE);
    lift(s, &p, v);
    if (!p.cells) {
        weir_indices_chosen chosen = {.n = p.n, .words = p.words, .word = s->word, .value = tau};
        weir_indices r =
            weir_indices_write(&chosen, s->pack == WEIR_INDICES_RICE, to, room(s, p.n));
        if (r.how != WEIR_INDICES_CELLS)
            return r;
        to_cells(&p);
    }
    return (weir_indices){.value = tau,
                          .words = (uint32_t)p.words,
                          .how = WEIR_INDICES_CELLS,
                          .bits = (uint8_t)s->cell,
                          .bytes = (uint32_t)room(s, p.n)};
}

/* ---- the verbs ---- */

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    static const weir_sparse_way way = {room, usual, write, .threshold = true};
    strom *s = self;
    size_t most = weir_codec_longest(b);

    WEIR_TRY(weir_sparse_init(&s->sparse, &weir_codec_strom, &way, b, 1, arena));
    s->cell = s->quanta > 7 ? 8 : s->quanta > 1 ? 4 : 2;
    if (b->dry)
        return WEIR_OK;
    s->word = WEIR_NEW(arena, uint32_t, most_words(s, most));
    s->tile.word = WEIR_NEW(arena, uint32_t, WEIR_FEED_TILE + WEIR_VEC_SIFT_SPARE);
    s->tile.value = WEIR_NEW(arena, float, WEIR_FEED_TILE + WEIR_VEC_SIFT_SPARE);
    s->sample = WEIR_NEW(arena, float, WEIR_SELECT_SAMPLE);
    return s->word && s->tile.word && s->tile.value && s->sample
               ? WEIR_OK
               : weir_fail_nomem(4 * most_words(s, most));
}

static weir_err state(void *self, weir_io *io)
{
    weir_sparse *s = self;

    return ((const strom *)self)->tau > 0
               ? WEIR_OK
               : weir_bucket_keep_each(s->bucket, "lift", s->now, WEIR_KEEP_MEAN, io);
}

const weir_codec weir_codec_strom = {
    .plug = {"strom", "what grew beyond a threshold, as a place and a sign; the rest waits",
             sizeof(strom), options},
    .mark = 'S',
    .drop = 0.6,
    .init = init,
    .keep = weir_sparse_keep,
    .state = state,
    WEIR_SPARSE,
};
