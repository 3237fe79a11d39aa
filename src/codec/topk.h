/* topk.h - between topk.c and dgc.c: the same codec with other settings. */
#ifndef WEIR_CODEC_TOPK_H
#define WEIR_CODEC_TOPK_H
#include "codec/sieve.h"

typedef struct weir_topk {
    weir_feedback feedback;
    double density;
    int select;
    bool rice;
    const weir_codec *codec;
    const weir_bucket *bucket;
    weir_sieve sieve;
} weir_topk;

#define WEIR_TOPK_OPTIONS(density_, select_)                                                                                                        \
    {"density", WEIR_OPT_REAL, offsetof(weir_topk, density), density_, "share of a tensor's elements to send", .min = 1e-7, .max = 1},             \
    {"select", WEIR_OPT_CHOICE, offsetof(weir_topk, select), select_, "how the largest are found", .choices = "sampled|exact|hierarchical"},       \
    {"rice", WEIR_OPT_BOOL, offsetof(weir_topk, rice), "yes", .help = "places in few bits"},                                                       \
    {0},

/* What a descriptor's verbs are made of; init says which codec it is. */
weir_err weir_topk_init(weir_topk *, const weir_codec *, const weir_bucket *, weir_arena *);
size_t weir_topk_bound(const void *);
size_t weir_topk_usual(const void *, weir_turn);
weir_err weir_topk_encode(void *, weir_turn, weir_feed *, void *msg, size_t *len);
void weir_topk_told(const void *, const void *msg, weir_told *);
weir_err weir_topk_decode(void *, weir_turn, const void *msg, size_t len, float *acc);

#define WEIR_TOPK(name_, help_, options_, mark_, init_)                                                                                                                                                \
    {                                                                                                                                                                                                  \
        .plug = {name_, help_, sizeof(weir_topk), options_}, .combine = WEIR_COMBINE_GATHER, .rounds = 1, .sparse = true, .mark = mark_, .drop = 0.6, .init = init_, .bound = weir_topk_bound,         \
        .usual = weir_topk_usual, .encode = weir_topk_encode, .decode = weir_topk_decode, .told = weir_topk_told,                                                                                                              \
    }
#endif
