/* hand_over.h - what is held back changes hands: nothing of it is lost, whoever comes or goes. */
#ifndef WEIR_EXCHANGE_HAND_H
#define WEIR_EXCHANGE_HAND_H
#include "exchange/exchange.h"

/* What is held back in this lane, and momentum, on all members of a group, becomes its first one's.
 * [blocks] */
weir_err weir_hand_collect(weir_lane *, weir_coll_use *, weir_group *);
/* The group is going to change, and all of its members are there: each calls it with the ranks that
 * stay, in an order that is the same on all. What those who leave hold back, also as owners of
 * stripes, and their momentum, is divided among those: what was sent and what is held back come to
 * the same sum. [blocks] */
weir_err weir_hand_over(const weir_exchange_env *, const int *stay, int count);
#endif
