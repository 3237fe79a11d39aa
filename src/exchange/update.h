/* update.h - all lanes of a rank cut into pieces of some 64 Ki elements, so that threads can share
 * the passes over them that end a step. How they are cut depends on the lanes alone: sums over
 * parts are the same for any number of threads. */
#ifndef WEIR_EXCHANGE_UPDATE_H
#define WEIR_EXCHANGE_UPDATE_H
#include "exchange/exchange.h"

typedef struct weir_update weir_update;

/* Lanes whose optimiser needs whole tensors are cut between tensors only. */
weir_err weir_update_make(weir_lane *, int lanes, weir_arena *, weir_update **);
/* The square of the norm of all gradients; not finite if one of them is not. */
double weir_update_sumsq(weir_update *, const weir_exchange_env *);
/* That was not finite: WEIR_NAN, and names the tensor. */
weir_err weir_update_blame(const weir_exchange_env *, uint64_t step);
/* Every lane's optimiser steps. */
void weir_update_step(weir_update *, const weir_exchange_env *, const weir_commit *, float scale);
#endif
