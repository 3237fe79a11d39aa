/* topk.c - the largest elements of each tensor, as they are; the rest waits.
 *
 * k = density * elements, at least one. How they are found:
 *   exact         the k-th largest of all is the threshold
 *   sampled       the threshold is read off a sample; what passes is sent, if it is not more than 2
 * k hierarchical  the same, but if more than 1.3 k pass, the k-th largest of those is the threshold
 * Where a sample misleads (nothing passes, or too many to hold) the exact way is taken. Of elements
 * equal to an exact threshold the first are taken, so that k are sent; zeros never are.
 *
 * Body: indices.h, valued. */
#include "codec/topk.h"

enum { SAMPLED, EXACT, HIERARCHICAL };

static const weir_opt options[] = {WEIR_FEEDBACK("yes", "yes", "0.5"),
                                   WEIR_TOPK_OPTIONS("0.01", "0.25", "sampled")};

static size_t room(const void *self, size_t n) { return 8 * weir_sparse_twice(self, n); }

static size_t usual(const void *self, size_t n, size_t k)
{
    return weir_indices_usual(n, k, true, ((const weir_topk *)self)->rice);
}

/* Chooses what is sent of a tensor; x is made, and nothing taken from it yet. */
static void choose(weir_topk *s, weir_feed *f, const weir_view *v, weir_when when, double density)
{
    size_t n = weir_view_length(v), k = weir_codec_count(density, n);

    if (s->select == EXACT || k == n) {
        weir_sieve_exact(&s->sieve, weir_feed_whole(f, v->at, n), n, k, 0);
        return;
    }
    weir_sieve_largest(&s->sieve, f, v, when, density, 0);
    if (!s->sieve.count || s->sieve.count > s->sieve.room)
        weir_sieve_exact(&s->sieve, weir_feed_pointer(f, v->at), n, k, 0);
    if (s->sieve.count > (s->select == HIERARCHICAL ? k + k / 3 : 2 * k))
        weir_sieve_thin(&s->sieve, k);
}

static weir_indices write(void *self, weir_when when, weir_feed *f, int view, double density,
                          unsigned char *to)
{
    weir_topk *s = self;
    const weir_view *v = &s->sparse.bucket->view[view];
    const weir_sieve *q = &s->sieve;
    float *x = weir_feed_pointer(f, v->at);

    choose(s, f, v, when, density);
    for (size_t k = 0; k < q->count; k++) {
        size_t i = q->word[k] >> 1;
        weir_indices_ask(q->word, q->count, k, x);
        x[i] = 0;
        weir_feed_sent(f, v->at + i);
    }
    weir_indices_chosen chosen = {.n = weir_view_length(v),
                                  .words = q->count,
                                  .word = q->word,
                                  .values = q->value};
    return weir_indices_write(&chosen, s->rice, to, 4 * q->count);
}

weir_err weir_topk_init(weir_topk *s, const weir_codec *codec, const weir_bucket *b,
                        weir_arena *arena)
{
    static const weir_sparse_way way = {room, usual, write, .threshold = false};

    WEIR_TRY(weir_sparse_init(&s->sparse, codec, &way, b, 0, arena));
    return weir_sieve_make(&s->sieve, b->dry ? 0 : weir_codec_longest(b),
                           weir_sparse_densest(&s->sparse), arena);
}

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    return weir_topk_init(self, &weir_codec_topk, b, arena);
}

const weir_codec weir_codec_topk = {
    .plug = {"topk", "the largest elements of each tensor; the rest waits", sizeof(weir_topk),
             options},
    .mark = 'T',
    .drop = 0.6,
    .init = init,
    WEIR_SPARSE,
};
