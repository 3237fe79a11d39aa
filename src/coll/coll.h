/* coll.h - collectives over a group: units and a sum, no gradients.
 *
 * Every member calls the same collectives in the same order; each call takes the group's next
 * number in its sequence.
 * A result is bitwise equal on all members: every unit is summed in an order fixed by the group's
 * size, once, and copied, or everywhere alike. All verbs [block] on the comm thread and, on an
 * error, have cancelled what they started. Any group size, any length, zero included; a group of
 * one never reaches a descriptor. One collective at a time on one weir_coll_use. In a dry net
 * (weir_net_dry) sizes travel, nothing is touched, and buffers may be NULL. Members whose lengths
 * differ get WEIR_MISFIT where a message shows it. Nobody above coll/ numbers messages of a group:
 * what goes between its members goes by one of these verbs.
 *
 * What an all-reduce of N bytes costs one of p members, in messages and bytes sent, if segments are
 * long enough for one to carry all (as many come in). q is the largest power of two up to p, r = p
 * - q.
 *
 *   ring      2 (p - 1) messages, 2 (p - 1)/p N.
 *   halving   r = 0: 2 lg p messages, 2 (p - 1)/p N. Else the 2r lowest fold: even ones send
 *             1 message of N; odd ones 2 lg q + 1 and 2 (q - 1)/q N + N; the rest 2 lg q and
 *             2 (q - 1)/q N.
 *   doubling  r = 0: lg p messages, lg p N. Else even ones below 2r 1 and N; odd ones lg q + 1 and
 *             (lg q + 1) N; the rest lg q and lg q N.
 *   blocks    in a block of c, the next larger one of d: 2 lg c messages and 2 (c - 1)/c N;
 *             d/c messages and N/c more if there is a larger one; 1 message and N/c more if there
 *             is a smaller one.
 *   tree      in each of two trees one message of N/2 to the parent and one to each child:
 *             4 (p - 1) messages and 2 (p - 1) N over all members, at most 4 and 2 N (the first
 *             tree's root: 3) on each.
 *   hier      that of its inner and outer ones.
 *
 * A reduce-scatter is the first half (ring, halving, blocks: where r > 0 pieces are then dealt out,
 * at most 3 messages more) or, where nothing shorter has as few steps, the whole; its sums have the
 * same bits. An all-gather of what lies in a row takes ring p - 1 messages, the others ceil(lg p)
 * (twice that where p is no power of two), each (p - 1)/p of the whole if the pieces are equal. A
 * broadcast goes down the ring, or a binary tree. An all-to-all and a gather send every piece
 * straight to its member: one message each, none of nothing. */
#ifndef WEIR_COLL_COLL_H
#define WEIR_COLL_COLL_H
#include "core/bucket.h"
#include "core/state.h"
#include "net/net.h"

/* One piece of a buffer for each member: member i's begins off[i] bytes behind buf and is len[i]
 * long. */
typedef struct weir_pieces {
    void *buf;
    const size_t *off, *len;
} weir_pieces;

typedef struct weir_coll {
    weir_plug plug;
    /* NULL if this collective can serve the group, else a sentence why not. The same on all
     * members. */
    const char *(*fits)(const void *self, const weir_group *);
    /* Once, after fits: takes what room it needs from the arena, so that no call has to. May not
     * block: it need not run on the comm thread. NULL: needs nothing. */
    weir_err (*open)(void *self, const weir_group *, weir_arena *);
    /* See weir_coll_memory: zeroed, 64-byte aligned, and gone with the arena it was opened with
     * (weir_arena_later). NULL, or leaving NULL: all memory is alike to it. [blocks] */
    weir_err (*memory)(void *self, weir_group *, size_t bytes, void **);
    /* buf becomes the sum of all members' bufs, on all of them. */
    weir_err (*allreduce)(void *self, weir_group *, void *buf, size_t units, const weir_sum *);
    /* The same, but member i is sure only of units [weir_coll_cut(units, size, i),
     * weir_coll_cut(units, size, i + 1)); the rest is garbage. With no units it is a barrier:
     * nobody's ends before everybody's has begun. */
    weir_err (*reduce_scatter)(void *self, weir_group *, void *buf, size_t units, const weir_sum *);
    /* Member i contributes len[i] bytes, which lie at all + off[i] on itself before, and on
     * everyone after. len and off are known to all. */
    weir_err (*allgather)(void *self, weir_group *, void *all, const size_t *off,
                          const size_t *len);
    /* buf of member `root` reaches all. */
    weir_err (*broadcast)(void *self, weir_group *, int root, void *buf, size_t bytes);
    /* What a run that goes on shall know: a choice that clocks made. NULL: nothing. */
    weir_err (*state)(void *self, weir_io *);
} weir_coll;

/* Where piece i of n units cut in `parts` begins. */
static inline size_t weir_coll_cut(size_t n, int parts, int i)
{
    size_t q = n / (size_t)parts, r = n % (size_t)parts, k = (size_t)i;
    return q * k + (k < r ? k : r);
}

/* The tag of part `part` of the group's running collective; weir_coll_sequence starts the next one.
 * Eight bits tell groups apart (mesh.h). */
static inline uint32_t weir_coll_sequence(weir_group *g)
{
    return (uint32_t)(g->id & 0xff) << 24 | (g->sequence++ & 0xffffff);
}

/* A collective ready for use: descriptor and private state. It belongs to the group it was opened
 * for. */
typedef struct weir_coll_use {
    const weir_coll *coll;
    void *self;
} weir_coll_use;
/* What "auto" takes for so many bytes, by a fixed table of (net, ranks, machines, bytes). Always
 * one that fits. */
/* several machines; members that share one; shm fits */
typedef struct weir_coll_form {
    bool apart, shared, shm;
} weir_coll_form;
weir_coll_form weir_coll_look(const weir_group *);
const char *weir_coll_pick(const weir_group *, const weir_coll_form *, size_t bytes);
/* The collective that a spec names; an error lists those there are. */
weir_err weir_coll_find(const char *spec, const weir_plug **);
/* WEIR_MISFIT: there is such a collective, but it does not fit the group. */
weir_err weir_coll_open(const char *spec, const weir_group *, weir_arena *, weir_coll_use *);
/* Zeroed memory in which this collective works best: any part of it may be given to the verbs below
 * as a buffer, as may any other memory. It goes with the arena that the collective was opened with,
 * or with this one. Every member calls it, with the same size, as if it were a collective.
 * [blocks] */
weir_err weir_coll_memory(weir_coll_use *, weir_group *, size_t bytes, weir_arena *, void **);
weir_err weir_allreduce(weir_coll_use *, weir_group *, void *buf, size_t units, const weir_sum *);
weir_err weir_reduce_scatter(weir_coll_use *, weir_group *, void *buf, size_t units,
                             const weir_sum *);
weir_err weir_allgather(weir_coll_use *, weir_group *, void *all, const size_t *off,
                        const size_t *len);
weir_err weir_broadcast(weir_coll_use *, weir_group *, int root, void *buf, size_t bytes);
/* Piece i of `out` reaches member i; what member i has for this one lands in piece i of `in`, one's
 * own among them. The two do not overlap. How long a piece is its sender and its receiver know, and
 * nobody else need. A piece of nothing takes no message: if the other one thinks it is something,
 * only a deadline tells. */
weir_err weir_alltoall(weir_coll_use *, weir_group *, const weir_pieces *out,
                       const weir_pieces *in);
/* Every member's piece reaches `root`, and lies at its place there; the root's own is there
 * already. Who is not the root needs, and says, the place and length of its own piece alone. A
 * piece of nothing takes no message. */
weir_err weir_talk_gather_all(weir_coll_use *, weir_group *, int root, const weir_pieces *);
weir_err weir_barrier(weir_coll_use *, weir_group *);

#define X(name) extern const weir_coll weir_coll_##name;
#include "coll/list.h"
#undef X
extern weir_plugs weir_colls;
#endif
