/* reconcile.h - replicas that have applied the same, each in an order of its own, made equal to the
 * last bit; and found out, if they have not. */
#ifndef WEIR_EXCHANGE_RECONCILE_H
#define WEIR_EXCHANGE_RECONCILE_H
#include "exchange/exchange.h"

typedef struct weir_reconcile weir_reconcile;

weir_err weir_reconcile_make(const weir_exchange_env *, weir_reconcile **);
/* `applied` stands for what this rank has applied since they were equal, and must be the same on
 * all; `added` is how often weights were added to, and tells what rounding explains. Where their
 * bits are not the same everybody then takes the first member's parameters; gradients are
 * overwritten. What is no rounding is WEIR_DIVERGED, names step, rank and tensor, and leaves the
 * parameters as they were. [blocks] */
weir_err weir_reconcile_all(weir_reconcile *, const weir_exchange_env *, uint64_t applied,
                            uint64_t added, uint64_t steps);
#endif
