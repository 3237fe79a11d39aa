/* codec_auto.h - inside codec/ and exchange/: what the user left to be chosen from. Who chooses is
 * exchange/choose.c, bucket by bucket. */
#ifndef WEIR_CODEC_CODEC_AUTO_H
#define WEIR_CODEC_CODEC_AUTO_H
#include "codec/codec.h"

enum { WEIR_AUTO_MOST = 8 }; /* candidates, dense included */

/* The private state of a codec that `chooses`. */
typedef struct weir_auto {
    /* `small` is the lane's for all candidates; the rest is each candidate's own */
    weir_feedback feedback;
    const char *among; /* as written; then */
    int64_t every, tries;
    int count;
    const char *spec[WEIR_AUTO_MOST]; /* the first is `none` */
    const weir_codec *stand; /* who encodes where nobody chooses: benches and tests of one codec */
    void *coder;
} weir_auto;

/* Reads `among` into specs: those that one message a step is enough for. WEIR_USAGE: there is no
 * such codec; WEIR_MISFIT: it needs more rounds, or whole tensors, or chooses itself. */
weir_err weir_auto_read(weir_auto *, weir_arena *);
#endif
