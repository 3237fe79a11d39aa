/* help_small.h - a model of three tensors, its lanes and steps, for the laws of exchange/; and
 * hashes of all that a step may change. */
#ifndef WEIR_HELP_SMALL_H
#define WEIR_HELP_SMALL_H
#include "exchange/exchange.h"
#include "help_ranks.h"

enum { SMALL_N = 50000 };
enum { SMALL_V = 39900 }; /* where v begins, in the middle of a bucket */

typedef struct small {
    weir_tensor t[3]; /* w, v, and b, which is dense */
    float param[SMALL_N], grad[SMALL_N + WEIR_EXCHANGE_NOTES], copy[SMALL_N];
    weir_lane *lane;
    int lanes;
    bool early, heavy, plain; /* plain: without momentum */
} small;

/* Parameters; what is held back and on its way. */
typedef struct small_hash {
    uint64_t param, held;
} small_hash;

/* Runs fn as `size` ranks; gives "" if all succeeded, else the sentence of the lowest rank whose
 * error is not the loss of another. */
const char *small_run(int size, weir_err (*fn)(weir_net *, void *), void *arg);

/* The exchange that a spec names; NULL: there is none. And whether it goes together with that
 * codec. */
const weir_exchange *small_exchange(const char *spec);
bool small_fits(const char *exchange, const char *codec);

weir_err small_make(small *, const char *codec, const char *exchange, weir_group *, weir_coll_use *,
                    weir_arena *, const weir_exchange *, void **self);
void small_gradient(small *, int member, uint64_t step);
/* Fails before that lane; -1: does not. */
weir_err small_step(small *, const weir_exchange *, void *self, int member, uint64_t step,
                    int die_before);

uint64_t small_fold(const float *, size_t n);
small_hash small_note(const small *);
small_hash small_note_all(const small *); /* and what codecs and optimisers have learned */
#endif
