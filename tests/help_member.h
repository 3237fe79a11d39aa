/* help_member.h - one worker of a group that exchanges made-up gradients: its mesh, collective,
 * buckets, lanes and exchange, as a trainer would hold them. Three tensors of two layers, cut into
 * several buckets. */
#ifndef HELP_MEMBER_H
#define HELP_MEMBER_H

#include "exchange/buckets.h"
#include "exchange/exchange.h"
#include "net/mesh.h"

enum { MEMBER_N = 3100 };

typedef struct member {
    weir_mesh mesh;
    weir_coll_use coll;
    weir_arena *life; /* what is no generation's */
    weir_tensor t[3];
    float param[MEMBER_N], *grad; /* grad: with WEIR_EXCHANGE_NOTES after it */
    weir_bucket *bucket;
    weir_lane *lane;
    int lanes;
    const weir_exchange *x;
    void *self;
} member;

/* Which exchange, codec and optimiser: specs as a user would write them. */
typedef struct member_specs {
    const char *exchange, *codec, *optim;
} member_specs;

weir_err member_make(member *m, member_specs s);
weir_exchange_env member_env(member *m);

#endif
