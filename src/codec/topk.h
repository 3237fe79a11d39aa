/* topk.h - between topk.c and dgc.c: the same codec with other settings. */
#ifndef WEIR_CODEC_TOPK_H
#define WEIR_CODEC_TOPK_H
#include "codec/sieve.h"
#include "codec/sparse.h"

typedef struct weir_topk {
    weir_sparse sparse;
    int select;
    bool rice;
    weir_sieve sieve;
} weir_topk;

#define WEIR_TOPK_OPTIONS(density_, ramp_, select_)                                              \
    WEIR_SPARSE_DENSITY(density_, ramp_),                                                        \
        {"select",                                                                               \
         WEIR_OPT_CHOICE,                                                                        \
         offsetof(weir_topk, select),                                                            \
         select_,                                                                                \
         "how the largest are found",                                                            \
         .choices = "sampled|exact|hierarchical"},                                               \
        {"rice", WEIR_OPT_BOOL, offsetof(weir_topk, rice), "yes", .help = "places in few bits"}, \
        {0},

weir_err weir_topk_init(weir_topk *, const weir_codec *, const weir_bucket *, weir_arena *);
#endif
