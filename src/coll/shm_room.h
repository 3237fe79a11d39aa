/* shm_room.h - between shm.c and shm_room.c: what the members of a group have in common, and how
 * they meet there.
 *
 *   room:    slot of member 0, 1, ...      stage of member 0 (two halves), 1, ...
 *   region:  part of member 0, 1, ...      what `memory` gave, as often as it was asked for
 *
 * A meeting: everybody raises the flag in its own slot and waits for all others. Before a
 * collective's first one each member writes into its slot what it is about to do and where its
 * buffer lies; there are two such notes, for even and odd meetings, as are the halves of a stage.
 * One half serves until the meeting after the next: who comes to that one has seen everybody at the
 * one between, and everybody came there only when it had done with the half. */
#ifndef WEIR_COLL_SHM_ROOM_H
#define WEIR_COLL_SHM_ROOM_H
#include "coll/coll.h"

/* What a member is about to do, the same for all but `where`: its region << 48 | offset in its
 * part, or WEIR_SHM_OUTSIDE. */
typedef struct weir_shm_intent {
    uint64_t where, bytes;
    uint32_t verb, root;
} weir_shm_intent;
#define WEIR_SHM_OUTSIDE UINT64_MAX
/* Two lines, as processors fetch lines in pairs. */
typedef struct weir_shm_slot {
    _Alignas(128) weir_flag flag;
    weir_shm_intent intent[2];
} weir_shm_slot;

typedef struct weir_shm_region {
    struct weir_shm_region *next;
    uint64_t id;
    char *at;
    size_t stride, bytes; /* of a part; of all */
} weir_shm_region;

typedef struct weir_shm_room {
    struct weir_shm_room *next;
    weir_net *net;
    const int *member;
    int size, me, generation;
    unsigned id;
    uint32_t sequence; /* meetings so far */
    weir_shm_slot *slot;
    char *stage;
    size_t half, bytes; /* of a stage; of all */
    weir_shm_region *regions;
    /* by member: its buffer as seen from here, when all lie in regions; or for the caller's use */
    char **at;
    void **x; /* room for as many pointers */
} weir_shm_room;

/* Every member calls it, with the same half; it is of this generation of the group's net.
 * [blocks] */
weir_err weir_shm_room_open(weir_group *, size_t half, weir_arena *, weir_shm_room **);
bool weir_shm_room_is(const weir_shm_room *, const weir_group *);
/* A part for each member; *mine is this one's, its pages taken. [blocks] */
weir_err weir_shm_room_memory(weir_shm_room *, weir_group *, size_t bytes, weir_arena *,
                              void **mine);
/* The half of a member's stage that serves around the coming meeting. */
static inline char *weir_shm_stage(const weir_shm_room *r, int i)
{
    return r->stage + (2 * (size_t)i + (r->sequence & 1)) * r->half;
}
/* A meeting of all. [blocks] */
weir_err weir_shm_meet(weir_shm_room *);
/* A collective's first meeting: all do the same, or WEIR_MISFIT on all of them. *inside: all
 * buffers lie in regions, and `at` says where. */
weir_err weir_shm_begin(weir_shm_room *, const weir_shm_intent *, const void *buf, bool *inside);
#endif
