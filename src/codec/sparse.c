/* sparse.c - see sparse.h. */
#include "codec/sparse.h"
#include <string.h>

weir_err weir_sparse_init(weir_sparse *s, const weir_codec *codec, const weir_sparse_way *way,
                          const weir_bucket *b, float first, weir_arena *arena)
{
    s->codec = codec;
    s->way = way;
    s->bucket = b;
    s->now = WEIR_NEW(arena, float, 2 * (size_t)b->views);
    if (!s->now)
        return weir_fail_nomem(2 * (size_t)b->views * sizeof(float));
    s->next = s->now + b->views;
    for (int v = 0; v < 2 * b->views; v++)
        s->now[v] = first;
    return WEIR_OK;
}

double weir_sparse_densest(const weir_sparse *s)
{
    return s->feedback.ramp > 0 && s->density < 0.25 ? 0.25 : s->density;
}

size_t weir_sparse_twice(const weir_sparse *s, size_t n)
{
    size_t k = 2 * weir_codec_count(weir_sparse_densest(s), n);

    return k < n ? k : n;
}

static size_t head(const weir_sparse *s)
{
    return WEIR_MESSAGE_HEAD + (size_t)s->bucket->views * sizeof(weir_indices);
}

size_t weir_sparse_bound(const void *self)
{
    const weir_sparse *s = self;
    size_t bytes = head(s);

    for (int v = 0; v < s->bucket->views; v++)
        bytes += s->way->room(s, weir_view_length(&s->bucket->view[v]));
    return bytes;
}

size_t weir_sparse_usual(const void *self, weir_when when)
{
    const weir_sparse *s = self;
    double density = weir_codec_density(&s->feedback, when, s->density);
    size_t bytes = head(s);

    for (int v = 0; v < s->bucket->views; v++) {
        size_t n = weir_view_length(&s->bucket->view[v]);
        bytes += s->way->usual(s, n, weir_codec_count(density, n));
    }
    return bytes;
}

weir_err weir_sparse_encode(void *self, weir_when when, weir_feed *f, void *msg, size_t *len)
{
    const weir_sparse *s = self;
    const weir_bucket *b = s->bucket;
    double density = weir_codec_density(&s->feedback, when, s->density);
    weir_indices *rows = weir_indices_rows(msg);
    unsigned char *to = (unsigned char *)(rows + b->views);

    for (int v = 0; v < b->views; v++) {
        rows[v] = s->way->write(self, when, f, v, density, to);
        to += rows[v].bytes;
    }
    *len = weir_message_head(msg, s->codec, b->n, (size_t)(to - (unsigned char *)rows));
    return WEIR_OK;
}

weir_err weir_sparse_decode(void *self, weir_when when, const void *msg, size_t len, float *acc)
{
    const weir_sparse *s = self;

    (void)when;
    return weir_indices_decode(s->codec, s->bucket, msg, len, acc);
}

void weir_sparse_stats(const void *self, const void *msg, weir_codec_stats *to)
{
    const weir_sparse *s = self;
    const weir_indices *row =
        (const weir_indices *)(const void *)((const char *)msg + WEIR_MESSAGE_HEAD);

    to->sent = 0;
    for (int v = 0; v < s->bucket->views; v++) {
        to->sent += row[v].words;
        if (to->tau && s->way->threshold)
            to->tau[v] = row[v].value;
    }
}

void weir_sparse_keep(void *self)
{
    weir_sparse *s = self;

    memcpy(s->now, s->next, (size_t)s->bucket->views * sizeof *s->now);
}
