/* guests.c - those who come while a run goes on: they wait at a member's door until the members
 * have agreed on a list with them, and get a number that nobody has had. What crosses the wire for
 * it is the world's. */
#include "net/member_message.h"
#include "net/world.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- on a member ---- */

weir_err weir_net_invite(weir_net *n, const void *welcome, size_t bytes)
{
    void *copy;

    if (!n->world->invite)
        return WEIR_OK;
    if (!(copy = malloc(bytes + 1)))
        return weir_fail_nomem(bytes);
    memcpy(copy, welcome, bytes);
    free(n->welcome);
    n->welcome = copy;
    n->welcome_bytes = bytes;
    return n->world->invite(n);
}

int weir_net_guests(const weir_net *n) { return atomic_load(&n->guests); }

void weir_guests_add(weir_net *n, const weir_guest *g)
{
    int count = atomic_load(&n->guests), room = n->guest_room;
    weir_guest *more;

    for (int i = 0; i < count; i++)
        if (n->guest[i].token == g->token)
            return;
    for (size_t i = 0; i < n->admissions; i++)
        if (n->admitted[i] == g->token)
            return; /* what it said before it heard so */
    if (count == WEIR_GUESTS_MAX)
        return;
    if (count == room) {
        room = room ? 2 * room : 4;
        if (!(more = realloc(n->guest, (size_t)room * sizeof *more)))
            return; /* it asks again */
        n->guest = more;
        n->guest_room = room;
    }
    n->guest[count] = *g;
    atomic_store(&n->guests, count + 1);
}

void weir_guests_remove(weir_net *n, uint64_t token)
{
    int count = atomic_load(&n->guests);

    for (int i = 0; i < count; i++)
        if (n->guest[i].token == token) {
            memmove(n->guest + i, n->guest + i + 1, (size_t)(count - i - 1) * sizeof *n->guest);
            atomic_store(&n->guests, count - 1);
            return;
        }
}

/* Who has a rank is no guest any more, whatever of its words is still under way. */
static weir_err remember(weir_net *n, uint64_t token)
{
    uint64_t *more = realloc(n->admitted, weir_net_room((int)n->admissions + 1) * sizeof *more);

    if (!more)
        return weir_fail_nomem(sizeof *more);
    n->admitted = more;
    n->admitted[n->admissions++] = token;
    weir_guests_remove(n, token);
    return WEIR_OK;
}

/* Everything that is kept by rank. */
static weir_err grow(weir_net *n, int size)
{
    unsigned char *peer;

    if (size <= n->size)
        return WEIR_OK;
    if (n->peer) {
        if (!(peer = realloc(n->peer, weir_net_room(size))))
            return weir_fail_nomem((size_t)size);
        memset(peer + n->size, 0, (size_t)(size - n->size));
        n->peer = peer;
    }
    if (n->life)
        WEIR_TRY(weir_liveness_grow(n, size));
    if (n->world->grow)
        WEIR_TRY(n->world->grow(n, size));
    n->size = size;
    return WEIR_OK;
}

static weir_err greet(weir_net *n, int peer)
{
    if (n->world->greet)
        return n->world->greet(n, peer);
    return n->life ? weir_liveness_greet(n, peer) : WEIR_OK;
}

weir_err weir_net_admit(weir_net *n, const weir_members *l)
{
    int first = l->count - l->joined;

    if (!l->joined)
        return WEIR_OK;
    WEIR_TRY(grow(n, l->next_id));
    for (int i = 0; i < l->joined; i++)
        WEIR_TRY(n->world->link(n, l->member[first + i], &l->guest[i].entry));
    n->world->tell_guests(n, l);
    for (int i = 0; i < l->joined; i++)
        WEIR_TRY(remember(n, l->guest[i].token));
    for (int i = 0; i < l->joined; i++)
        WEIR_TRY(greet(n, l->member[first + i]));
    return WEIR_OK;
}

void weir_net_doors(weir_net *n, char *text, size_t room)
{
    text[0] = 0;
    if (n->world->doors)
        n->world->doors(n, text, room);
}

/* ---- on a guest ---- */

bool weir_net_joins(const weir_net *n) { return n->joins; }

weir_err weir_net_knock(weir_net *n, void **welcome, size_t *bytes)
{
    if (!n->world->knock)
        return weir_fail(WEIR_MISFIT, "--join: nobody can join a run over %s", weir_net_name(n));
    return n->world->knock(n, welcome, bytes);
}

static weir_err link_all(weir_net *n, const weir_members *l, const weir_meet_entry *entry)
{
    WEIR_TRY(grow(n, l->next_id));
    for (int i = 0; i < l->count; i++)
        if (l->member[i] != n->rank)
            WEIR_TRY(n->world->link(n, l->member[i], &entry[l->member[i]]));
    for (int i = 0; i < l->count; i++)
        if (l->member[i] != n->rank)
            WEIR_TRY(greet(n, l->member[i]));
    return WEIR_OK;
}

weir_err weir_net_join(weir_net *n, weir_arena *arena, weir_members *list)
{
    weir_meet_entry *entry = NULL;
    weir_member_message m;
    void *bytes = NULL;
    size_t len;
    int entries;
    weir_err err = n->world->wait_in(n, &bytes, &len, &entry, &entries);

    if (!err && (!weir_member_read(bytes, len, arena, &m) || m.list.next_id > entries ||
                 !weir_members_has(&m.list, n->rank)))
        err = weir_fail(WEIR_INVALID, "the list of members that came from the door makes no sense");
    if (!err && n->board && (uint64_t)n->rank < n->board->ranks)
        atomic_store(&n->board->slot[n->rank].pid, (int32_t)getpid());
    if (!err)
        err = link_all(n, &m.list, entry);
    free(bytes);
    free(entry);
    if (!err)
        *list = m.list;
    return err;
}
