/* redsync.c - trimmed top-k, threshold search, one mean for all that is sent (RedSync, arXiv
 * 1808.04357).
 *
 * Thresholds are mean + ratio (max - mean) of |x|, or, quantised, of x on the side whose turn it
 * is; the mean is a sample's, and levels are tried on the few that a sieve has put aside.
 * k = density * elements, at least one. By the size of the tensor (select=auto):
 *
 *   trimmed  ratio 0.8, 0.6, ... until k pass; the k largest of those are sent. For tensors below
 *            4 MiB
 *   search   ratio is halved in [0, 1] until k to 2 k pass, and all of them are sent: fewer than k
 *            pass: lower, else higher. The threshold serves for `reuse` steps
 *
 * Quantised: one step sends the largest, the next the most negative, all as their mean: indices are
 * all that travels. What the mean does not say is held back (error=keep), or dropped with the rest,
 * as the paper seems to do (error=drop). The output layer, whose few numbers matter most, is sent
 * as it is.
 *
 * Body: indices.h, valued unless quantised, part by part. */
#include "codec/sieve.h"
#include "codec/sparse.h"
#include "core/vec.h"
#include <math.h>

enum { AUTO, TRIMMED, SEARCH };
enum { KEEP, DROP };
enum { LARGE = 1 << 20 /* elements */, PROBES = 20 };
static const double STEP = 0.2, MORE = 2.5; /* MORE: of what is wanted is put aside */

typedef struct redsync {
    weir_sparse sparse; /* its numbers: thresholds; 0: none to reuse */
    int select, error;
    bool quantise, rice;
    int64_t reuse;
    weir_sieve sieve;
} redsync;

static const weir_opt options[] = {
    WEIR_FEEDBACK("yes", "yes", "1"),
    WEIR_SPARSE_DENSITY("0.001", "2"),
    {"select", WEIR_OPT_CHOICE, offsetof(redsync, select), "auto",
     "how the largest are found: by size, or", .choices = "auto|trimmed|search"},
    {"quantise", WEIR_OPT_BOOL, offsetof(redsync, quantise), "yes",
     .help = "one mean for all that is sent, of one sign a step"},
    {"error", WEIR_OPT_CHOICE, offsetof(redsync, error), "keep", "what the mean does not say",
     .choices = "keep|drop"},
    {"reuse", WEIR_OPT_INT, offsetof(redsync, reuse), "5",
     "steps that a searched threshold serves, if not quantised", .min = 1, .max = 1e6},
    {"rice", WEIR_OPT_BOOL, offsetof(redsync, rice), "yes", .help = "places in few bits"},
    {0},
};

static bool searches(const redsync *s, size_t n)
{
    return s->select == SEARCH || (s->select == AUTO && n >= LARGE);
}

static size_t room(const void *self, size_t n) { return 8 * weir_sparse_twice(self, n); }

static size_t usual(const void *self, size_t n, size_t k)
{
    const redsync *s = self;

    return weir_indices_usual(n, searches(s, n) ? k + k / 3 : k, !s->quantise, s->rice);
}

/* ---- selection, among what the sieve has put aside ---- */

static float level(const weir_sieve *q, double ratio)
{
    return (float)((double)q->mean + ratio * ((double)q->most - (double)q->mean));
}

static size_t count(const weir_sieve *q, float least)
{
    return weir_vec_best()->count_over(q->value, q->count, least);
}

/* A threshold that k to 2 k pass; 0: there is none. */
static float by_search(const weir_sieve *q, size_t k)
{
    double low = 0, high = 1;

    for (int i = 0; i < PROBES; i++) {
        double ratio = (low + high) / 2;
        size_t n = count(q, level(q, ratio));
        if (n >= k && n <= 2 * k)
            return level(q, ratio);
        if (n < k)
            high = ratio;
        else
            low = ratio;
    }
    return 0;
}

static void keep_over(weir_sieve *q, float least)
{
    size_t kept = 0;

    for (size_t i = 0; i < q->count; i++)
        if (fabsf(q->value[i]) > least) {
            q->word[kept] = q->word[i];
            q->value[kept++] = q->value[i];
        }
    q->count = kept;
}

/* The first of the levels that k pass, then the k largest of those. */
static void by_trimming(weir_sieve *q, size_t k)
{
    double ratio = 1 - STEP;

    while (ratio > STEP / 2 && count(q, level(q, ratio)) < k)
        ratio -= STEP;
    if (count(q, level(q, ratio)) >= k)
        keep_over(q, level(q, ratio));
    weir_sieve_thin(q, k);
}

static bool quantises(const redsync *s, int v)
{
    return s->quantise && !s->sparse.bucket->view[v].tensor->output;
}

/* Chooses what is sent of a tensor; x is made, and nothing taken from it yet. */
static void choose(redsync *s, weir_feed *f, int v, weir_when when, size_t k, int side)
{
    const weir_view *w = &s->sparse.bucket->view[v];
    size_t n = weir_view_length(w);
    bool search = searches(s, n);
    weir_sieve *q = &s->sieve;
    float *next = &s->sparse.next[v];

    if (search && !quantises(s, v) && s->sparse.now[v] > 0 && when.step % (uint64_t)s->reuse) {
        weir_sieve_over(q, f, w, *next = s->sparse.now[v], side);
        if (q->count && q->count <= q->room) {
            weir_sieve_thin(q, 2 * k < n ? 2 * k : n);
            return;
        }
    } else
        weir_sieve_largest(q, f, w, when, fmin(1, MORE * (double)k / (double)n), side);
    *next = 0;
    if (q->count < k || q->count > q->room)
        weir_sieve_exact(q, weir_feed_pointer(f, w->at), n, k, side);
    else if (!search)
        by_trimming(q, k);
    else if ((*next = by_search(q, k)) > 0)
        keep_over(q, *next);
    else
        weir_sieve_thin(q, k);
}

/* Takes from x what is sent of it, and says what that is in the mean. */
static float take(redsync *s, weir_feed *f, size_t at, bool quantise)
{
    const weir_sieve *q = &s->sieve;
    float *x = weir_feed_pointer(f, at), mean;
    double sum = 0;

    for (size_t k = 0; k < q->count; k++)
        sum += fabs((double)q->value[k]);
    mean = q->count ? (float)(sum / (double)q->count) : 0;
    for (size_t k = 0; k < q->count; k++) {
        size_t i = q->word[k] >> 1;
        weir_indices_ask(q->word, q->count, k, x);
        x[i] = quantise && s->error == KEEP ? x[i] - (q->word[k] & 1 ? -mean : mean) : 0;
        weir_feed_sent(f, at + i);
    }
    return mean;
}

static weir_indices write(void *self, weir_when when, weir_feed *f, int v, double density,
                          unsigned char *to)
{
    redsync *s = self;
    const weir_view *w = &s->sparse.bucket->view[v];
    size_t n = weir_view_length(w);
    bool quantise = quantises(s, v);
    float mean;

    choose(s, f, v, when, weir_codec_count(density, n), quantise ? (when.step % 2 ? -1 : 1) : 0);
    mean = take(s, f, w->at, quantise);
    weir_indices_chosen chosen = {.n = n,
                                  .words = s->sieve.count,
                                  .word = s->sieve.word,
                                  .values = quantise ? NULL : s->sieve.value,
                                  .value = quantise ? mean : 0};
    return weir_indices_write(&chosen, s->rice, to, 4 * s->sieve.count);
}

/* ---- the verbs ---- */

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    static const weir_sparse_way way = {room, usual, write, .threshold = false};
    redsync *s = self;

    WEIR_TRY(weir_sparse_init(&s->sparse, &weir_codec_redsync, &way, b, 0, arena));
    return weir_sieve_make(&s->sieve, b->dry ? 0 : weir_codec_longest(b),
                           weir_sparse_densest(&s->sparse), arena);
}

static weir_err state(void *self, weir_io *io)
{
    weir_sparse *s = self;

    return weir_bucket_keep_each(s->bucket, "threshold", s->now, WEIR_KEEP_MEAN, io);
}

const weir_codec weir_codec_redsync = {
    .plug = {"redsync",
             "the largest by trimmed selection or searched thresholds, as one mean; the rest waits",
             sizeof(redsync), options},
    .mark = 'R',
    .drop = 0.7,
    .init = init,
    .keep = weir_sparse_keep,
    .state = state,
    WEIR_SPARSE,
};
