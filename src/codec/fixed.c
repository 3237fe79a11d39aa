/* fixed.c - see fixed.h. */
#include "codec/fixed.h"
#include "codec/levels.h"
#include <math.h>
#include <string.h>

enum { LONG = 4 << 20 /* bytes: a message that no cache near the core holds */ };

weir_err weir_fixed_init(weir_fixed *s, const weir_fixed_way *way, const weir_bucket *b, int bits)
{
    s->way = way;
    s->bucket = b;
    s->bits = bits;
    return WEIR_OK;
}

static size_t head_bytes(const weir_fixed *s) { return (size_t)s->way->values * sizeof(float); }

static size_t part_bytes(const weir_fixed *s, size_t n)
{
    return head_bytes(s) + weir_levels_bytes(n, s->bits);
}

size_t weir_fixed_bound(const void *self)
{
    const weir_fixed *s = self;
    const weir_bucket *b = s->bucket;
    size_t bytes = WEIR_MESSAGE_HEAD, block = s->way->block;

    if (s->way->by == WEIR_FIXED_BLOCKS)
        return bytes + b->n / block * part_bytes(s, block) +
               (b->n % block ? part_bytes(s, b->n % block) : 0);
    for (const weir_view *v = b->view; v < b->view + b->views; v++)
        bytes += !weir_view_length(v)            ? 0
                 : s->way->by == WEIR_FIXED_ROWS ? v->rows * part_bytes(s, v->cols)
                                                 : part_bytes(s, weir_view_length(v));
    return bytes;
}

/* The length of the part that begins at `at`, in *view or a later one. */
static size_t part_at(const weir_fixed *s, size_t at, const weir_view **view)
{
    size_t left = s->bucket->n - at;

    if (s->way->by == WEIR_FIXED_BLOCKS)
        return left < s->way->block ? left : s->way->block;
    while (at >= (*view)->at + weir_view_length(*view))
        ++*view;
    return s->way->by == WEIR_FIXED_ROWS ? (*view)->cols : weir_view_length(*view);
}

/* What a part does not say of x is held back. */
static void write_part(const weir_fixed *s, weir_feed *f, weir_fixed_part *p, unsigned char *to)
{
    bool tile = p->n <= WEIR_FEED_TILE;
    float *x, value[WEIR_FIXED_VALUES] = {0};
    unsigned char *bits = to + head_bytes(s);

    /* where it ends: the line is here when it is written */
    __builtin_prefetch(to + part_bytes(s, p->n), 1);
    x = tile ? weir_feed_tile(f, p->at, p->n) : weir_feed_whole(f, p->at, p->n);
    p->most = f->most;
    memset(to + part_bytes(s, p->n) - 4, 0, 4);
    s->way->write(s, p, x, value, bits);
    memcpy(to, value, head_bytes(s));
    if (!f->held)
        return;
    for (int k = 0; k < WEIR_FIXED_VALUES; k++)
        value[k] = -value[k];
    s->way->add(s, value, bits, p->n, x);
    if (tile)
        weir_feed_leave(f, p->at, p->n);
}

weir_err weir_fixed_encode(void *self, weir_when when, weir_feed *f, void *msg, size_t *len)
{
    const weir_fixed *s = self;
    const weir_view *view = s->bucket->view;
    unsigned char *to = (unsigned char *)msg + WEIR_MESSAGE_HEAD;
    size_t bytes = weir_fixed_bound(s);
    weir_fixed_part p = {.draw = f->key * 0x9e3779b97f4a7c15ull + when.step, .past = bytes >= LONG};

    for (; p.at < s->bucket->n; p.at += p.n) {
        p.n = part_at(s, p.at, &view);
        write_part(s, f, &p, to);
        to += part_bytes(s, p.n);
    }
    weir_vec_best()->fence();
    *len = weir_message_head(msg, s->way->codec, s->bucket->n, bytes - WEIR_MESSAGE_HEAD);
    return WEIR_OK;
}

weir_err weir_fixed_decode(void *self, weir_when when, const void *msg, size_t len, float *acc)
{
    const weir_fixed *s = self;
    const weir_view *view = s->bucket->view;
    const unsigned char *body;
    size_t bytes, n;

    (void)when;
    WEIR_TRY(weir_message_open(msg, len, s->way->codec, s->bucket->n, &body, &bytes));
    if (len != weir_fixed_bound(s))
        return weir_message_bad(s->way->codec, "it is of another length");
    for (size_t at = 0; at < s->bucket->n; at += n, body += part_bytes(s, n)) {
        float value[WEIR_FIXED_VALUES] = {0};
        n = part_at(s, at, &view);
        memcpy(value, body, head_bytes(s));
        if (!isfinite(value[0]) || !isfinite(value[1]))
            return weir_message_bad(s->way->codec, "a value is not finite");
        s->way->add(s, value, body + head_bytes(s), n, acc + at);
    }
    return WEIR_OK;
}
