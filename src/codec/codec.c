/* codec.c - the table, and what several codecs do alike. */
#include "codec/codec.h"

#define X(name) &weir_codec_##name.plug,
static const weir_plug *const table[] = {
#include "codec/list.h"
    NULL};
#undef X
weir_plugs weir_codecs = table;

/* 1/4, 1/16, ... in five equal parts of the ramp: what Deep Gradient Compression warms up with. */
double weir_codec_density(const weir_feedback *f, weir_when when, double final)
{
    double since = when.epochs - f->warmup, density = 0.25;

    if (f->ramp <= 0 || since >= f->ramp)
        return final;
    for (int k = (int)(5 * since / f->ramp); k > 0; k--)
        density /= 4;
    return density > final ? density : final;
}

/* Masking keeps what comes late from doing harm while gradients still turn quickly, and slows
 * training down ever after: momentum counts for less the more often an element is sent (at density
 * 1 there is none left). Once half an epoch was dense, it costs more than it saves
 * (docs/CONVERGENCE.md, one thing left out). */
bool weir_codec_masks(const weir_feedback *f)
{
    enum { AUTO, YES };

    return f->mask == YES || (f->mask == AUTO && f->warmup < 0.5);
}

size_t weir_codec_usual(const weir_codec *c, const void *self, weir_when when)
{
    return c->usual ? c->usual(self, when) : c->bound(self);
}

size_t weir_codec_count(double density, size_t n)
{
    size_t k = (size_t)(density * (double)n + 0.5);

    return k < 1 ? 1 : k > n ? n : k;
}

size_t weir_codec_longest(const weir_bucket *b)
{
    size_t most = 0;

    for (const weir_view *v = b->view; v < b->view + b->views; v++)
        most = weir_view_length(v) > most ? weir_view_length(v) : most;
    return most;
}
