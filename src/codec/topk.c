/* topk.c - the largest elements of each tensor, as they are; the rest waits. And dgc: the same with the settings of Deep Gradient
 * Compression (Lin et al. 2018), whose corrections every lane has.
 *
 * k = density * elements, at least one. How they are found:
 *   exact         the k-th largest of all is the threshold
 *   sampled       the threshold is read off a sample; what passes is sent, if it is not more than 2 k
 *   hierarchical  the same, but if more than 1.3 k pass, the k-th largest of those is the threshold
 * Where a sample misleads (nothing passes, or too many to hold) the exact way is taken. Of elements equal to an exact threshold the first are
 * taken, so that k are sent; zeros never are.
 *
 * Body: places.h, valued. */
#include "codec/places.h"
#include "codec/select.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

enum { SAMPLED, EXACT, HIERARCHICAL };
enum { LEAST_SAMPLE = 256, MOST_SAMPLE = 16384, SPARE = 64 };

typedef struct topk {
    weir_feedback feedback;
    double density;
    int select;
    bool rice;
    const weir_codec *codec;
    const weir_bucket *bucket;
    size_t room;      /* of words: for one tensor */
    uint32_t *word, *hit;
    float *value, *sample, *copy; /* copy: of a whole tensor, |x| */
} topk;

#define TOPK_OPTIONS(density_, select_)                                                                                                        \
    {"density", WEIR_OPT_REAL, offsetof(topk, density), density_, "share of a tensor's elements to send", .min = 1e-7, .max = 1},             \
    {"select", WEIR_OPT_CHOICE, offsetof(topk, select), select_, "how the largest are found", .choices = "sampled|exact|hierarchical"},       \
    {"rice", WEIR_OPT_BOOL, offsetof(topk, rice), "yes", .help = "places in few bits"},                                                       \
    {0},
static const weir_opt options[] = {WEIR_FEEDBACK("yes", "yes", "0", "0"), TOPK_OPTIONS("0.01", "sampled")};
static const weir_opt dgc_options[] = {WEIR_FEEDBACK("yes", "yes", "0", "1"), TOPK_OPTIONS("0.001", "hierarchical")};

/* As dense as it ever gets. */
static double most_density(const topk *s) { return s->feedback.ramp > 0 && s->density < 0.25 ? 0.25 : s->density; }

/* Words that a message may have. */
static size_t room_of(const topk *s, size_t n)
{
    size_t k = 2 * weir_codec_share(most_density(s), n) + SPARE;

    return k < n ? k : n;
}

static weir_err start(topk *s, const weir_codec *codec, const weir_bucket *b, weir_arena *arena)
{
    size_t most = weir_codec_longest(b);

    s->codec = codec;
    s->bucket = b;
    s->room = room_of(s, most);
    s->word = WEIR_NEW(arena, uint32_t, s->room);
    s->value = WEIR_NEW(arena, float, s->room);
    s->hit = WEIR_NEW(arena, uint32_t, WEIR_TILE);
    s->sample = WEIR_NEW(arena, float, MOST_SAMPLE);
    s->copy = WEIR_NEW(arena, float, most);
    return s->word && s->value && s->hit && s->sample && s->copy ? WEIR_OK : weir_fail_nomem(most * sizeof(float));
}

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena) { return start(self, &weir_codec_topk, b, arena); }
static weir_err init_dgc(void *self, const weir_bucket *b, weir_arena *arena) { return start(self, &weir_codec_dgc, b, arena); }

static size_t bound(const void *self)
{
    const topk *s = self;
    size_t bytes = WEIR_MESSAGE_HEAD;

    for (int v = 0; v < s->bucket->views; v++)
        bytes += sizeof(weir_places) + 8 * room_of(s, weir_view_length(&s->bucket->view[v]));
    return bytes;
}

static size_t usual(const void *self, weir_turn turn)
{
    const topk *s = self;
    double density = weir_codec_density(&s->feedback, turn, s->density);
    size_t bytes = WEIR_MESSAGE_HEAD;

    for (int v = 0; v < s->bucket->views; v++)
        bytes += sizeof(weir_places) + weir_codec_share(density, weir_view_length(&s->bucket->view[v])) * 8;
    return bytes;
}

/* ---- selection ---- */

/* The k largest of x, ties from the front; words and values. */
static size_t select_exact(topk *s, const float *x, size_t n, size_t k)
{
    float least;
    size_t ties = k, words = 0;

    for (size_t i = 0; i < n; i++)
        s->copy[i] = fabsf(x[i]);
    least = weir_select(s->copy, n, k);
    ties -= weir_vec_best()->count_over(x, n, least);
    for (size_t i = 0; i < n && words < s->room; i++) {
        float a = fabsf(x[i]);
        bool tie = a == least && ties && a > 0;
        if (!tie && !(a > least))
            continue;
        ties -= tie;
        s->value[words] = x[i];
        s->word[words++] = (uint32_t)i << 1 | (x[i] < 0);
    }
    return words;
}

/* Of the words there are, the k largest. */
static size_t thin_out(topk *s, size_t words, size_t k)
{
    float least;
    size_t kept = 0;

    for (size_t i = 0; i < words; i++)
        s->copy[i] = fabsf(s->value[i]);
    least = weir_select(s->copy, words, k);
    for (size_t i = 0; i < words && kept < k; i++)
        if (fabsf(s->value[i]) >= least) {
            s->word[kept] = s->word[i];
            s->value[kept++] = s->value[i];
        }
    return kept;
}

/* All beyond `least`, while making x. More than there is room for: room + 1. */
static size_t collect(topk *s, weir_feed *f, const weir_view *v, size_t room, float least)
{
    const weir_vec *vec = weir_vec_best();
    size_t n = weir_view_length(v), words = 0;

    for (size_t k = 0; k < n; k += WEIR_TILE) {
        size_t some = n - k < WEIR_TILE ? n - k : WEIR_TILE, hits = 0;
        const float *x = weir_feed_tile(f, v->at + k, some);
        if (words <= room)
            hits = vec->over(x, some, least, s->hit);
        for (size_t h = 0; h < hits && words <= room; h++, words++)
            if (words < room) {
                s->value[words] = x[s->hit[h]];
                s->word[words] = (uint32_t)(k + s->hit[h]) << 1 | (x[s->hit[h]] < 0);
            }
        weir_feed_leave(f, v->at + k, some);
    }
    return words;
}

static float threshold(topk *s, const weir_feed *f, const weir_view *v, weir_turn turn, double density)
{
    size_t n = weir_view_length(v), aim = n / 100, m, k;

    aim = (double)aim * density < 8 ? (size_t)(8 / density) : aim; /* so that the threshold is one of several, not the sample's largest */
    aim = aim < LEAST_SAMPLE ? LEAST_SAMPLE : aim > MOST_SAMPLE ? MOST_SAMPLE : aim;
    m = weir_select_sample(f, v->at, n, turn.step, s->sample, aim);
    k = (size_t)(density * (double)m + 0.5);
    return weir_select(s->sample, m, k < 1 ? 1 : k);
}

/* Chooses what is sent of a tensor; x is made, and nothing taken from it yet. */
static size_t choose(topk *s, weir_feed *f, const weir_view *v, weir_turn turn, double density)
{
    size_t n = weir_view_length(v), k = weir_codec_share(density, n), room = room_of(s, n), words = room + 1;
    float *x;

    if (s->select != EXACT && f->held && n > LEAST_SAMPLE)
        words = collect(s, f, v, room, threshold(s, f, v, turn, density));
    else
        weir_feed_whole(f, v->at, n);
    x = (f->held ? f->hold : f->grad) + v->at;
    if (words > room || !words)
        return select_exact(s, x, n, k);
    if (words > (s->select == HIERARCHICAL ? k + k / 3 : 2 * k))
        return thin_out(s, words, k);
    return words;
}

static weir_err encode(void *self, weir_turn turn, weir_feed *f, void *msg, size_t *len)
{
    topk *s = self;
    const weir_bucket *b = s->bucket;
    double density = weir_codec_density(&s->feedback, turn, s->density);
    weir_places *rows = weir_places_rows(msg);
    unsigned char *to = (unsigned char *)(rows + b->views);

    for (int v = 0; v < b->views; v++) {
        const weir_view *w = &b->view[v];
        size_t words = choose(s, f, w, turn, density);
        float *x = (f->held ? f->hold : f->grad) + w->at;
        for (size_t k = 0; k < words; k++) {
            x[s->word[k] >> 1] = 0;
            weir_feed_sent(f, w->at + (s->word[k] >> 1));
        }
        rows[v] = weir_places_write(s->word, words, weir_view_length(w), s->value, 0, s->rice, to);
        to += rows[v].bytes;
    }
    *len = weir_message_head(msg, s->codec, b->n, (size_t)(to - (unsigned char *)rows));
    return WEIR_OK;
}

static weir_err decode(void *self, weir_turn turn, const void *msg, size_t len, float *acc)
{
    const topk *s = self;

    (void)turn;
    return weir_places_decode(s->codec, s->bucket, msg, len, acc);
}

#define TOPK(name_, help_, options_, mark_, init_)                                                                                              \
    {                                                                                                                                           \
        .plug = {name_, help_, sizeof(topk), options_}, .combine = WEIR_COMBINE_GATHER, .rounds = 1, .sparse = true, .mark = mark_, .drop = 0.6, \
        .init = init_, .bound = bound, .usual = usual, .encode = encode, .decode = decode,                                                      \
    }
const weir_codec weir_codec_topk = TOPK("topk", "the largest elements of each tensor; the rest waits", options, 'T', init);
const weir_codec weir_codec_dgc = TOPK("dgc", "topk as in Deep Gradient Compression: one in a thousand, after a ramp", dgc_options, 'D', init_dgc);
