/* codec_auto.c - the codec left open: what may be chosen from, and how often it is looked at again.
 * A lane that is told so keeps all candidates at hand; where one codec has to stand for it, that is
 * the first which keeps something back. */
#include "codec/codec_auto.h"
#include <ctype.h>
#include <string.h>

static const weir_opt options[] = {
    {"among", WEIR_OPT_TEXT, offsetof(weir_auto, among), "half+strom",
     "what may be chosen besides none: specs joined by +, in brackets where one holds a comma",
     .bare = true},
    {"every", WEIR_OPT_INT, offsetof(weir_auto, every), "200",
     "steps until the choice is measured again", .min = 10, .max = 1e9},
    {"try", WEIR_OPT_INT, offsetof(weir_auto, tries), "5",
     "steps for which each is tried; fewer where they take seconds", .min = 1, .max = 64},
    {"small", WEIR_OPT_INT, offsetof(weir_feedback, small), "256",
     "tensors of fewer elements stay dense", .min = 1, .max = 1e15},
    {0},
};

static weir_err find(const char *spec, const weir_codec **codec)
{
    const weir_plug *plug;

    WEIR_TRY(weir_plug_find(weir_codecs, "codec", spec, &plug));
    *codec = (const weir_codec *)plug;
    return WEIR_OK;
}

static weir_err add(weir_auto *a, const char *spec)
{
    const weir_codec *codec;

    WEIR_TRY(find(spec, &codec));
    if (codec->rounds > 1 || codec->whole || codec->chooses)
        return weir_fail(WEIR_MISFIT, "--codec auto cannot choose %s: it %s", spec,
                         codec->chooses ? "chooses itself"
                         : codec->whole ? "needs whole tensors"
                                        : "takes several rounds");
    for (int i = 0; i < a->count; i++)
        if (!strcmp(a->spec[i], spec))
            return WEIR_OK;
    if (a->count == WEIR_AUTO_MOST)
        return weir_fail(WEIR_USAGE, "--codec auto: among=%s names more than %d codecs", a->among,
                         WEIR_AUTO_MOST - 1);
    a->spec[a->count++] = spec;
    return WEIR_OK;
}

/* A + before a letter parts two specs: 1e+3 is a number. */
weir_err weir_auto_read(weir_auto *a, weir_arena *arena)
{
    char *text = weir_copy_text(arena, a->among);

    if (!text)
        return weir_fail_nomem(strlen(a->among));
    if (!*text)
        return weir_fail(WEIR_USAGE, "--codec auto: among= names nothing to choose from");
    a->count = 0;
    WEIR_TRY(add(a, "none"));
    while (*text) {
        char *end = text;
        while (*end && !(*end == '+' && isalpha((unsigned char)end[1])))
            end++;
        bool last = !*end;
        *end = 0;
        WEIR_TRY(add(a, text));
        text = last ? end : end + 1;
    }
    return WEIR_OK;
}

/* ---- one that stands for all ---- */

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    weir_auto *a = self;

    WEIR_TRY(weir_auto_read(a, arena));
    for (int i = 0; i < a->count && !a->feedback.residual; i++) {
        const weir_codec *codec;
        WEIR_TRY(find(a->spec[i], &codec));
        WEIR_TRY(weir_plug_make(&codec->plug, "codec", a->spec[i], arena, &a->coder));
        WEIR_TRY(codec->init(a->coder, b, arena));
        a->stand = codec;
        a->feedback.residual = !codec->raw && ((const weir_feedback *)a->coder)->residual;
    }
    return WEIR_OK;
}

static size_t bound(const void *self)
{
    const weir_auto *a = self;

    return a->stand->bound(a->coder);
}

static weir_err encode(void *self, weir_when when, weir_feed *f, void *msg, size_t *len)
{
    const weir_auto *a = self;

    return a->stand->encode(a->coder, when, f, msg, len);
}

static weir_err decode(void *self, weir_when when, const void *msg, size_t len, float *acc)
{
    const weir_auto *a = self;

    return a->stand->decode(a->coder, when, msg, len, acc);
}

static void keep(void *self)
{
    const weir_auto *a = self;

    if (a->stand->keep)
        a->stand->keep(a->coder);
}

const weir_codec weir_codec_auto = {
    .plug = {"auto",
             "for every bucket the one of several that makes the step shortest, dense included, as "
             "measured",
             sizeof(weir_auto), options},
    .combine = WEIR_COMBINE_GATHER,
    .rounds = 1,
    .chooses = true,
    .drop = 0.6,
    .init = init,
    .bound = bound,
    .encode = encode,
    .decode = decode,
    .keep = keep,
};
