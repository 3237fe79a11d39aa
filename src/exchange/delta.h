/* delta.h - what one worker tells all others of one lane in one step: by how much their weights
 * are to move.
 *
 * A delta means the same on whoever applies it, and whenever: the sender has put its rate, momentum
 * and decay into it. It does so in units of `base`, the rate when all last agreed: while the rate
 * stays, what is written, and what is held back, are gradients, as in any other exchange.
 *
 *   g = rate / base * gradient
 *   u = momentum * u + g
 *   x = held back + u                 the codec writes x, and what it leaves is held back
 *   w -= base * what the delta says   on everybody, the sender included
 *
 * Layout: docs/WIRE.md. */
#ifndef WEIR_EXCHANGE_DELTA_H
#define WEIR_EXCHANGE_DELTA_H
#include "exchange/lane.h"
#include "exchange/mailbox.h"

/* What deltas of a worker have in common. */
typedef struct weir_delta_writer {
    weir_group *group;
    double base;
    uint64_t seed;
    float *tile;
} weir_delta_writer;

/* The rate of this step in units of the base: what a gradient is multiplied by. Never 0: what is
 * kept times it must be had back. */
double weir_delta_unit(const weir_delta_writer *, weir_when);
/* The most bytes that a delta of this lane may have. */
size_t weir_delta_most(const weir_lane *);
/* Writes the lane's gradient times `scale`, with what was held back and what is noted behind it.
 * Dry: only says how long it usually is. Nothing counts before weir_lane_commit. What is not finite
 * is WEIR_NAN and names the tensor. */
weir_err weir_delta_write(weir_lane *, const weir_delta_writer *, weir_when, float scale, void *to,
                          size_t *len);
/* Adds what it says to the lane's gradient, and copies what was noted. *sum: its checksum, which
 * was right (one's own is believed). Bytes from a network: those that make no sense are
 * WEIR_INVALID, and the sentence names the rank. */
weir_err weir_delta_read(weir_lane *, const weir_delta_writer *, const weir_delta *, float *notes,
                         uint64_t *sum);
#endif
