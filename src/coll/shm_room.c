/* shm_room.c - see shm_room.h. */
#include "coll/shm_room.h"
#include <errno.h>
#include <sys/mman.h>

enum { ALIGN = 4096, LARGE = 2 << 20, APART = 17 * ALIGN, REGION_SHIFT = 48 };

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ---- opening ---- */

static void close_room(void *room)
{
    weir_shm_room *r = room;

    weir_net_unshare(r->slot, r->bytes);
}

static void close_region(void *region)
{
    weir_shm_region *g = region;

    weir_net_unshare(g->at, g->bytes);
}

weir_err weir_shm_room_open(weir_group *group, size_t half, weir_arena *arena, weir_shm_room **out)
{
    weir_shm_room *r = WEIR_NEW(arena, weir_shm_room, 1);
    size_t p = (size_t)group->size, slots = round_up(p * sizeof(weir_shm_slot), ALIGN);
    void *at;

    if (!r || !(r->at = WEIR_NEW(arena, char *, p)) || !(r->x = WEIR_NEW(arena, void *, p)))
        return weir_fail_nomem(sizeof *r + 2 * p * sizeof(void *));
    r->net = group->net;
    r->member = group->member;
    r->size = group->size;
    r->me = group->me;
    r->id = group->id;
    r->generation = weir_net_generation(group->net);
    r->half = half;
    r->bytes = slots + 2 * p * half;
    WEIR_TRY(weir_net_share(group, weir_coll_sequence(group), r->bytes, &at));
    r->slot = at;
    r->stage = (char *)at + slots;
    if (!weir_arena_later(arena, close_room, r))
        return weir_net_unshare(at, r->bytes), weir_fail_nomem(0);
    *out = r;
    return WEIR_OK;
}

bool weir_shm_room_is(const weir_shm_room *r, const weir_group *g)
{
    return r->net == g->net && r->id == g->id && r->size == g->size && r->me == g->me &&
           r->generation == weir_net_generation(g->net);
}

/* Pages lie between parts, so that the same element of many parts does not fall into one set of a
 * cache, or into one bank of memory: with one page, 128 MiB take half as long again. */
weir_err weir_shm_room_memory(weir_shm_room *r, weir_group *group, size_t bytes, weir_arena *arena,
                              void **mine)
{
    weir_shm_region *g = WEIR_NEW(arena, weir_shm_region, 1);
    void *at;

    if (!g)
        return weir_fail_nomem(sizeof *g);
    g->id = r->regions ? r->regions->id + 1 : 0;
    g->stride = round_up(bytes, bytes >= LARGE ? LARGE : ALIGN) + APART;
    g->bytes = g->stride * (size_t)r->size;
    if (g->stride < bytes || g->bytes / (size_t)r->size != g->stride || g->bytes >> REGION_SHIFT)
        return weir_fail_nomem(bytes);
    WEIR_TRY(weir_net_share(group, weir_coll_sequence(group), g->bytes, &at));
    g->at = at;
    if (!weir_arena_later(arena, close_region, g))
        return weir_net_unshare(at, g->bytes), weir_fail_nomem(0);
    at = g->at + g->stride * (size_t)r->me;
    if (madvise(at, g->stride, MADV_POPULATE_WRITE) && errno != EINVAL)
        return weir_fail_nomem(bytes);
    g->next = r->regions;
    r->regions = g;
    *mine = at;
    return WEIR_OK;
}

/* ---- meeting ---- */

weir_err weir_shm_meet(weir_shm_room *r)
{
    uint32_t sequence = ++r->sequence;

    weir_net_raise(&r->slot[r->me].flag, sequence);
    for (int k = 1; k < r->size; k++) {
        int i = (r->me + k) % r->size;
        WEIR_TRY(weir_net_await(r->net, r->member[i], &r->slot[i].flag, sequence));
    }
    return WEIR_OK;
}

static uint64_t where(const weir_shm_room *r, const char *buf, size_t bytes)
{
    for (const weir_shm_region *g = r->regions; g; g = g->next) {
        const char *part = g->at + g->stride * (size_t)r->me;
        if (buf >= part && buf <= part + g->stride && bytes <= (size_t)(part + g->stride - buf))
            return g->id << REGION_SHIFT | (uint64_t)(buf - part);
    }
    return WEIR_SHM_OUTSIDE;
}

static char *seen(const weir_shm_room *r, int i, uint64_t at)
{
    const weir_shm_region *g = r->regions;

    while (g && g->id != at >> REGION_SHIFT)
        g = g->next;
    return g ? g->at + g->stride * (size_t)i + (at & ((1ull << REGION_SHIFT) - 1)) : NULL;
}

weir_err weir_shm_begin(weir_shm_room *r, const weir_shm_intent *intent, const void *buf,
                        bool *inside)
{
    uint32_t sequence = r->sequence & 1;
    weir_shm_intent *mine = &r->slot[r->me].intent[sequence];

    *mine = *intent;
    mine->where = where(r, buf, intent->bytes);
    WEIR_TRY(weir_shm_meet(r));
    *inside = true;
    for (int i = 0; i < r->size; i++) {
        weir_shm_intent n = r->slot[i].intent[sequence];
        if (n.bytes != intent->bytes || n.verb != intent->verb || n.root != intent->root)
            return weir_fail(
                WEIR_MISFIT,
                "rank %d is at another collective (of %llu bytes) than rank %d (of %llu)",
                r->member[i], (unsigned long long)n.bytes, r->member[r->me],
                (unsigned long long)intent->bytes);
        r->at[i] = n.where == WEIR_SHM_OUTSIDE ? NULL : seen(r, i, n.where);
        *inside = *inside && r->at[i];
    }
    return WEIR_OK;
}
