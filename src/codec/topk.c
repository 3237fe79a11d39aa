/* topk.c - the largest elements of each tensor, as they are; the rest waits.
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
#include "codec/topk.h"

enum { SAMPLED, EXACT, HIERARCHICAL };

static const weir_opt options[] = {WEIR_FEEDBACK("yes", "yes", "0", "0"), WEIR_TOPK_OPTIONS("0.01", "sampled")};

/* As dense as it ever gets. */
static double most_density(const weir_topk *s) { return s->feedback.ramp > 0 && s->density < 0.25 ? 0.25 : s->density; }

/* Words that a message may have. */
static size_t room_of(const weir_topk *s, size_t n)
{
    size_t k = 2 * weir_codec_share(most_density(s), n);

    return k < n ? k : n;
}

weir_err weir_topk_init(weir_topk *s, const weir_codec *codec, const weir_bucket *b, weir_arena *arena)
{
    s->codec = codec;
    s->bucket = b;
    return weir_sieve_make(&s->sieve, b->dry ? 0 : weir_codec_longest(b), most_density(s), arena);
}

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena) { return weir_topk_init(self, &weir_codec_topk, b, arena); }

size_t weir_topk_bound(const void *self)
{
    const weir_topk *s = self;
    size_t bytes = WEIR_MESSAGE_HEAD;

    for (int v = 0; v < s->bucket->views; v++)
        bytes += sizeof(weir_places) + 8 * room_of(s, weir_view_length(&s->bucket->view[v]));
    return bytes;
}

size_t weir_topk_usual(const void *self, weir_turn turn)
{
    const weir_topk *s = self;
    double density = weir_codec_density(&s->feedback, turn, s->density);
    size_t bytes = WEIR_MESSAGE_HEAD;

    for (int v = 0; v < s->bucket->views; v++)
        bytes += sizeof(weir_places) + weir_codec_share(density, weir_view_length(&s->bucket->view[v])) * 8;
    return bytes;
}

/* Chooses what is sent of a tensor; x is made, and nothing taken from it yet. */
static void choose(weir_topk *s, weir_feed *f, const weir_view *v, weir_turn turn, double density)
{
    size_t n = weir_view_length(v), k = weir_codec_share(density, n);

    if (s->select == EXACT || k == n) {
        weir_sieve_exact(&s->sieve, weir_feed_whole(f, v->at, n), n, k, 0);
        return;
    }
    weir_sieve_share(&s->sieve, f, v, turn, density, 0);
    if (!s->sieve.count || s->sieve.count > s->sieve.room)
        weir_sieve_exact(&s->sieve, weir_feed_place(f, v->at), n, k, 0);
    if (s->sieve.count > (s->select == HIERARCHICAL ? k + k / 3 : 2 * k))
        weir_sieve_thin(&s->sieve, k);
}

weir_err weir_topk_encode(void *self, weir_turn turn, weir_feed *f, void *msg, size_t *len)
{
    weir_topk *s = self;
    const weir_bucket *b = s->bucket;
    double density = weir_codec_density(&s->feedback, turn, s->density);
    weir_places *rows = weir_places_rows(msg);
    unsigned char *to = (unsigned char *)(rows + b->views);

    for (int v = 0; v < b->views; v++) {
        const weir_view *w = &b->view[v];
        float *x = weir_feed_place(f, w->at);
        choose(s, f, w, turn, density);
        for (size_t k = 0; k < s->sieve.count; k++) {
            size_t i = s->sieve.word[k] >> 1;
            x[i] = 0;
            weir_feed_sent(f, w->at + i);
        }
        rows[v] = weir_places_write(s->sieve.word, s->sieve.count, weir_view_length(w), s->sieve.value, 0, s->rice, to);
        to += rows[v].bytes;
    }
    *len = weir_message_head(msg, s->codec, b->n, (size_t)(to - (unsigned char *)rows));
    return WEIR_OK;
}

void weir_topk_told(const void *self, const void *msg, weir_told *to) { to->sent = weir_places_sent(((const weir_topk *)self)->bucket, msg); }

weir_err weir_topk_decode(void *self, weir_turn turn, const void *msg, size_t len, float *acc)
{
    const weir_topk *s = self;

    (void)turn;
    return weir_places_decode(s->codec, s->bucket, msg, len, acc);
}

const weir_codec weir_codec_topk = WEIR_TOPK("topk", "the largest elements of each tensor; the rest waits", options, 'T', init);
