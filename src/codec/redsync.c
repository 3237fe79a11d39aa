/* redsync.c - trimmed top-k, threshold search, one mean for all that is sent (RedSync, arXiv 1808.04357).
 *
 * Thresholds are mean + ratio (max - mean) of |x|, or, quantised, of x on the side whose turn it is. k = density * elements, at least one. By the size of
 * the tensor (select=auto):
 *   trimmed  ratio 0.8, 0.6, ... until k pass; the k largest of those are sent. For tensors below 4 MiB
 *   search   ratio is halved in [0, 1] until k to 2 k pass, and all of them are sent: fewer than k pass: lower, else higher. The threshold serves for `reuse` steps
 * Quantised: one step sends the largest, the next the most negative, all as their mean: places are all that travels. What the mean does not say is held
 * back (error=keep), or dropped with the rest, as the paper seems to do (error=drop).
 *
 * Body: places.h, valued unless quantised. */
#include "codec/places.h"
#include "codec/select.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

enum { AUTO, TRIMMED, SEARCH };
enum { KEEP, DROP };
enum { LARGE = 1 << 20 /* elements */, PROBES = 20 };
static const double STEP = 0.2, FINEST = 1e-3;

typedef struct redsync {
    weir_feedback feedback;
    double density;
    int select, error;
    bool quantise, rice;
    int64_t reuse;
    const weir_bucket *bucket;
    size_t room;
    float *now, *next; /* thresholds, by view; 0: none to reuse */
    uint32_t *word;
    float *value, *copy;
} redsync;

static const weir_opt options[] = {
    WEIR_FEEDBACK("yes", "yes", "0.5", "0"),
    {"density", WEIR_OPT_REAL, offsetof(redsync, density), "0.001", "share of a tensor's elements to send", .min = 1e-7, .max = 1},
    {"select", WEIR_OPT_CHOICE, offsetof(redsync, select), "auto", "how the largest are found: by size, or", .choices = "auto|trimmed|search"},
    {"quantise", WEIR_OPT_BOOL, offsetof(redsync, quantise), "yes", .help = "one mean for all that is sent, of one sign a step"},
    {"error", WEIR_OPT_CHOICE, offsetof(redsync, error), "keep", "what the mean does not say", .choices = "keep|drop"},
    {"reuse", WEIR_OPT_INT, offsetof(redsync, reuse), "5", "steps that a searched threshold serves, if not quantised", .min = 1, .max = 1e6},
    {"rice", WEIR_OPT_BOOL, offsetof(redsync, rice), "yes", .help = "places in few bits"},
    {0},
};

static double most_density(const redsync *s) { return s->feedback.ramp > 0 && s->density < 0.25 ? 0.25 : s->density; }

static size_t room_of(const redsync *s, size_t n)
{
    size_t k = 2 * weir_codec_share(most_density(s), n);

    return k < n ? k : n;
}

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    redsync *s = self;
    size_t most = weir_codec_longest(b);

    s->bucket = b;
    s->room = room_of(s, most);
    s->now = WEIR_NEW(arena, float, 2 * (size_t)b->views);
    s->next = s->now + b->views;
    s->word = WEIR_NEW(arena, uint32_t, most); /* of survivors too */
    s->value = WEIR_NEW(arena, float, most);
    s->copy = WEIR_NEW(arena, float, most);
    return s->now && s->word && s->value && s->copy ? WEIR_OK : weir_fail_nomem(3 * most * sizeof(float));
}

static size_t bound(const void *self)
{
    const redsync *s = self;
    size_t bytes = WEIR_MESSAGE_HEAD;

    for (int v = 0; v < s->bucket->views; v++)
        bytes += sizeof(weir_places) + 8 * room_of(s, weir_view_length(&s->bucket->view[v]));
    return bytes;
}

static size_t usual(const void *self, weir_turn turn)
{
    const redsync *s = self;
    double density = weir_codec_density(&s->feedback, turn, s->density);
    size_t bytes = WEIR_MESSAGE_HEAD;

    for (int v = 0; v < s->bucket->views; v++)
        bytes += sizeof(weir_places) + weir_codec_share(density, weir_view_length(&s->bucket->view[v])) * (s->quantise ? 2 : 6);
    return bytes;
}

/* ---- selection: of x, |x| made one-sided where a sign has its turn ---- */

/* One tensor of a step: a[i] is what is compared. */
typedef struct search {
    const float *a;
    size_t n, k;
    double mean;
    float most;
} search;

static float level(const search *q, double ratio) { return (float)(q->mean + ratio * ((double)q->most - q->mean)); }

/* The k-th largest by selection, where levels do not tell elements apart. */
static float kth(redsync *s, const search *q)
{
    float least;

    memcpy(s->copy, q->a, q->n * sizeof *s->copy);
    least = weir_select(s->copy, q->n, q->k);
    return nextafterf(least, 0); /* so that it passes itself */
}

/* A threshold that k to 2 k pass, if there is one. */
static float by_search(redsync *s, const search *q)
{
    const weir_vec *vec = weir_vec_best();
    double low = 0, high = 1;

    for (int i = 0; i < PROBES && high - low > FINEST / 16; i++) {
        double ratio = (low + high) / 2;
        size_t count = vec->count_over(q->a, q->n, level(q, ratio));
        if (count >= q->k && count <= 2 * q->k)
            return level(q, ratio);
        if (count < q->k)
            high = ratio;
        else
            low = ratio;
    }
    return kth(s, q);
}

static float by_trimming(redsync *s, const search *q)
{
    const weir_vec *vec = weir_vec_best();
    float least = 0;
    size_t count = 0;

    for (double ratio = 1 - STEP; count < q->k && ratio > -STEP / 2; ratio -= STEP)
        count = vec->count_over(q->a, q->n, least = level(q, ratio));
    if (count < q->k || count > q->n / 4)
        return kth(s, q);
    count = vec->over(q->a, q->n, least, s->word);
    for (size_t i = 0; i < count; i++)
        s->copy[i] = q->a[s->word[i]];
    return nextafterf(weir_select(s->copy, count, q->k), 0);
}

static float threshold(redsync *s, int v, const search *q, weir_turn turn)
{
    bool search = s->select == SEARCH || (s->select == AUTO && q->n >= LARGE);

    if (search && !s->quantise && s->now[v] > 0 && turn.step % (uint64_t)s->reuse)
        return s->now[v];
    return search ? by_search(s, q) : by_trimming(s, q);
}

/* What has its turn: |x|, or the side of x that is sent now, the other at 0. */
static const float *compared(redsync *s, const float *x, size_t n, int side)
{
    for (size_t i = 0; i < n; i++)
        s->value[i] = side ? (x[i] * (float)side > 0 ? fabsf(x[i]) : 0) : fabsf(x[i]);
    return s->value;
}

/* Words of what passes, at most `room` of them: a threshold that served before may let more through. */
static size_t collect(redsync *s, const float *a, const float *x, size_t n, float least, size_t room)
{
    size_t words = weir_vec_best()->over(a, n, least, s->word);

    if (words > room) {
        for (size_t i = 0; i < words; i++)
            s->copy[i] = a[s->word[i]];
        least = weir_select(s->copy, words, room);
        size_t kept = 0;
        for (size_t i = 0; i < words && kept < room; i++)
            if (a[s->word[i]] >= least)
                s->word[kept++] = s->word[i];
        words = kept;
    }
    for (size_t i = 0; i < words; i++)
        s->word[i] = s->word[i] << 1 | (x[s->word[i]] < 0);
    return words;
}

/* Takes from x what is sent of it, and says what that is: the values, or their mean. */
static float take(redsync *s, weir_feed *f, float *x, size_t at, size_t words)
{
    double sum = 0;
    float mean;

    for (size_t k = 0; k < words; k++)
        sum += fabs((double)x[s->word[k] >> 1]);
    mean = words ? (float)(sum / (double)words) : 0;
    for (size_t k = 0; k < words; k++) {
        size_t i = s->word[k] >> 1;
        s->value[k] = x[i];
        x[i] = s->quantise && s->error == KEEP ? x[i] - (s->word[k] & 1 ? -mean : mean) : 0;
        weir_feed_sent(f, at + i);
    }
    return mean;
}

static weir_places encode_view(redsync *s, weir_turn turn, weir_feed *f, int v, double density, unsigned char *to)
{
    const weir_view *w = &s->bucket->view[v];
    size_t n = weir_view_length(w), words;
    float *x = weir_feed_whole(f, w->at, n), least, mean;
    search q = {.a = compared(s, x, n, s->quantise ? (turn.step % 2 ? -1 : 1) : 0), .n = n, .k = weir_codec_share(density, n)};
    double sum;

    weir_vec_best()->size(q.a, n, &sum, &q.most);
    q.mean = sum / (double)n;
    least = q.most > 0 ? threshold(s, v, &q, turn) : 0;
    s->next[v] = least;
    words = q.most > 0 ? collect(s, q.a, x, n, least, room_of(s, n)) : 0;
    mean = take(s, f, x, w->at, words);
    return weir_places_write(s->word, words, n, s->quantise ? NULL : s->value, s->quantise ? mean : 0, s->rice, to);
}

static weir_err encode(void *self, weir_turn turn, weir_feed *f, void *msg, size_t *len)
{
    redsync *s = self;
    const weir_bucket *b = s->bucket;
    double density = weir_codec_density(&s->feedback, turn, s->density);
    weir_places *rows = weir_places_rows(msg);
    unsigned char *to = (unsigned char *)(rows + b->views);

    for (int v = 0; v < b->views; v++) {
        rows[v] = encode_view(s, turn, f, v, density, to);
        to += rows[v].bytes;
    }
    *len = weir_message_head(msg, &weir_codec_redsync, b->n, (size_t)(to - (unsigned char *)rows));
    return WEIR_OK;
}

static void keep(void *self)
{
    redsync *s = self;

    memcpy(s->now, s->next, (size_t)s->bucket->views * sizeof *s->now);
}

static weir_err decode(void *self, weir_turn turn, const void *msg, size_t len, float *acc)
{
    (void)turn;
    return weir_places_decode(&weir_codec_redsync, ((const redsync *)self)->bucket, msg, len, acc);
}

static weir_err state(void *self, weir_io *io)
{
    redsync *s = self;

    return weir_bucket_keep_each(s->bucket, "threshold", s->now, WEIR_KEEP_MEAN, io);
}

const weir_codec weir_codec_redsync = {
    .plug = {"redsync", "the largest by trimmed selection or searched thresholds, as one mean; the rest waits", sizeof(redsync), options},
    .combine = WEIR_COMBINE_GATHER,
    .rounds = 1,
    .sparse = true,
    .mark = 'R',
    .drop = 0.7,
    .init = init,
    .bound = bound,
    .usual = usual,
    .encode = encode,
    .decode = decode,
    .keep = keep,
    .state = state,
};
