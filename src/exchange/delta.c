/* delta.c - see delta.h. */
#include "exchange/delta.h"
#include "core/hash.h"
#include "core/vec.h"
#include <string.h>

enum { VERSION = 1, PLAIN = 1 /* the body is floats as they are */ };

typedef struct head {
    char magic[2];
    uint8_t version, how;
    uint32_t lane;
    uint64_t step;
    double epochs, base;
    uint32_t body, notes; /* bytes, floats */
    uint64_t sum;
} head;
_Static_assert(sizeof(head) == 48, "the head has no holes");

static const double LEAST = 1e-20;

double weir_delta_unit(const weir_delta_writer *writer, weir_when when)
{
    return when.rate > LEAST * writer->base ? when.rate / writer->base : LEAST;
}

static bool is_plain(const weir_lane *l, weir_when when)
{
    return !l->codec->feedback || when.epochs < l->codec->feedback->warmup;
}

static size_t plain_bytes(const weir_lane *l) { return l->bucket->n * sizeof(float); }

static size_t front(const weir_lane *l) { return sizeof(head) + l->notes * sizeof(float); }

/* Of everything but itself: head, notes and body lie in a row. */
static uint64_t sum_of(const head *h, const void *delta, size_t len)
{
    return weir_hash((const char *)delta + sizeof *h, len - sizeof *h,
                     weir_hash(h, offsetof(head, sum), 0));
}

size_t weir_delta_most(const weir_lane *l)
{
    const weir_lane_codec *c = l->codec;
    size_t coded = c->kind->raw ? 0 : c->kind->bound(c->self);
    bool plain = c->kind->raw || c->feedback->warmup > 0;

    return front(l) + (plain && plain_bytes(l) > coded ? plain_bytes(l) : coded);
}

/* ---- writing ---- */

static size_t usual(const weir_lane *l, weir_when when)
{
    if (is_plain(l, when))
        return front(l) + plain_bytes(l);
    return front(l) + weir_codec_usual(l->codec->kind, l->codec->self, when);
}

/* Momentum is kept times the rate: where that has changed, so has what is kept. Nesterov's looks
 * ahead by the factor alone. */
static weir_feed feed(weir_lane *l, const weir_delta_writer *writer, weir_when when, float scale)
{
    float unit = (float)weir_delta_unit(writer, when), before = l->unit > 0 ? l->unit : 1;
    weir_feed f = weir_lane_feed(l, writer->seed, writer->group->me, scale * unit, writer->tile);

    f.unit = unit;
    if (!l->momentum.nesterov)
        f.momentum *= unit / before;
    else if (l->speed.now && unit != before) {
        weir_vec_best()->scale(l->speed.now, unit / before, l->bucket->n);
        l->unit = unit;
    }
    if (is_plain(l, when)) {
        f.held = l->foreign ? f.held : NULL;
        f.mask = false;
    }
    return f;
}

static weir_err write_body(weir_lane *l, weir_when when, weir_feed *f, char *to, size_t *len)
{
    const weir_lane_codec *c = l->codec;

    l->stats.sent = f->n;
    if (is_plain(l, when)) {
        memcpy(to, weir_feed_whole(f, 0, f->n), *len = plain_bytes(l));
        if (f->held) /* it went along */
            memset(f->hold, 0, plain_bytes(l));
        return WEIR_OK;
    }
    WEIR_TRY(c->kind->encode(c->self, when, f, to, len));
    if (c->kind->stats)
        c->kind->stats(c->self, to, &l->stats);
    return WEIR_OK;
}

weir_err weir_delta_write(weir_lane *l, const weir_delta_writer *writer, weir_when when,
                          float scale, void *delta, size_t *len)
{
    head h = {{'W', 'P'},
              VERSION,
              is_plain(l, when) ? PLAIN : 0,
              (uint32_t)l->bucket->id,
              when.step,
              when.epochs,
              writer->base,
              0,
              (uint32_t)l->notes,
              0};
    double begun = weir_net_now(writer->group->net);
    char *to = delta;
    size_t body = 0;

    if (weir_net_dry(writer->group->net))
        return *len = usual(l, when), WEIR_OK;
    weir_feed f = feed(l, writer, when, scale);
    l->leaves = !is_plain(l, when);
    WEIR_TRY(write_body(l, when, &f, to + front(l), &body));
    WEIR_TRY(weir_lane_check(&f, l->bucket, when));
    l->held.fresh = f.held != NULL;
    l->speed.fresh = f.speed != NULL;
    memcpy(to + sizeof h, l->bucket->grad + l->bucket->n, l->notes * sizeof(float));
    h.body = (uint32_t)body;
    h.sum = sum_of(&h, delta, front(l) + body);
    memcpy(to, &h, sizeof h);
    *len = front(l) + body;
    l->codec_s += weir_net_now(writer->group->net) - begun;
    return WEIR_OK;
}

/* ---- reading ---- */

static weir_err bad(const weir_delta_writer *writer, const weir_delta *x, const char *what)
{
    return weir_fail(WEIR_INVALID,
                     "rank %d sent a delta of %zu bytes for step %llu that makes no sense: %s",
                     writer->group->member[x->from], x->len, (unsigned long long)x->step + 1, what);
}

static weir_err check_head(const weir_lane *l, const weir_delta_writer *writer, const weir_delta *x,
                           head *h)
{
    if (x->len < front(l) || x->len > weir_delta_most(l))
        return bad(writer, x, "it is shorter or longer than one can be");
    memcpy(h, x->data, sizeof *h);
    if (memcmp(h->magic, "WP", 2) || h->version != VERSION)
        return bad(writer, x, "it is of another kind or version");
    if (x->from != writer->group->me && h->sum != sum_of(h, x->data, x->len))
        return bad(writer, x, "it was damaged on its way");
    if (h->lane != (uint32_t)l->bucket->id || h->step != x->step || h->notes != l->notes ||
        h->body != x->len - front(l))
        return bad(writer, x, "it is for another bucket or step, or of another length");
    if (h->base != writer->base)
        return weir_fail(WEIR_DIVERGED,
                         "step %llu: rank %d reckons from a rate of %g, this one from %g",
                         (unsigned long long)x->step + 1, writer->group->member[x->from], h->base,
                         writer->base);
    return WEIR_OK;
}

static weir_err add_body(weir_lane *l, const weir_delta_writer *writer, const weir_delta *x,
                         const head *h)
{
    const char *body = (const char *)x->data + front(l);
    weir_when when = {.step = h->step, .epochs = h->epochs};
    weir_err err;

    if (!(h->how & PLAIN) && !l->codec->kind->raw) {
        err = l->codec->kind->decode(l->codec->self, when, body, h->body, l->bucket->grad);
        return err ? weir_fail_in(err, "from rank %d, step %llu", writer->group->member[x->from],
                                  (unsigned long long)x->step + 1)
                   : WEIR_OK;
    }
    if (!(h->how & PLAIN) || h->body != plain_bytes(l))
        return bad(writer, x, "floats as they are were expected, one for each of the bucket's");
    weir_sum_f32.add(l->bucket->grad, body, l->bucket->n);
    return WEIR_OK;
}

weir_err weir_delta_read(weir_lane *l, const weir_delta_writer *writer, const weir_delta *x,
                         float *notes, uint64_t *sum)
{
    double begun = weir_net_now(writer->group->net);
    head h;

    WEIR_TRY(check_head(l, writer, x, &h));
    WEIR_TRY(add_body(l, writer, x, &h));
    memcpy(notes, (const char *)x->data + sizeof h, l->notes * sizeof(float));
    *sum = h.sum;
    l->codec_s += weir_net_now(writer->group->net) - begun;
    return WEIR_OK;
}
