/* member_message.c - see member_message.h. A head, then the list's ranks, who of them is behind,
 * who is lost to the sender; the list's guests, the sender's guests. */
#include "net/member_message.h"
#include "core/hash.h"
#include <stdlib.h>
#include <string.h>

typedef struct head {
    uint32_t kind;
    int32_t generation;
    uint64_t round, accepted, step;
    uint64_t list_step;
    int32_t list_generation, source, next_id, left;
    uint32_t count, joined, guests, losts;
    uint32_t leaves, zero;
} head;
_Static_assert(sizeof(head) == 80 && sizeof(weir_guest) == 176, "no holes on the wire");

static const uint64_t SEED = 0x6d656d62657273; /* of hashes of lists */

const weir_members *weir_members_keep(const weir_members *l, weir_arena *arena)
{
    weir_members *kept = WEIR_NEW(arena, weir_members, 1);

    if (kept)
        *kept = *l;
    return kept;
}

bool weir_members_has(const weir_members *m, int rank)
{
    for (int i = 0; i < m->count; i++)
        if (m->member[i] == rank)
            return true;
    return false;
}

uint32_t weir_members_hash(const weir_members *m)
{
    uint64_t fixed[] = {(uint64_t)m->generation, (uint64_t)m->source, (uint64_t)m->next_id, m->step,
                        (uint64_t)m->left},
             h = weir_hash(fixed, sizeof fixed, SEED);

    h = weir_hash(m->member, (size_t)m->count * sizeof *m->member, h);
    h = weir_hash(m->behind, (size_t)m->count * sizeof *m->behind, h);
    h = weir_hash(m->guest, (size_t)m->joined * sizeof *m->guest, h);
    return (uint32_t)h ? (uint32_t)h : 1;
}

bool weir_members_copy(const weir_members *from, weir_arena *arena, weir_members *to)
{
    *to = *from;
    to->member = WEIR_NEW(arena, int, from->count + 1);
    to->behind = WEIR_NEW(arena, int, from->count + 1);
    to->guest = WEIR_NEW(arena, weir_guest, from->joined + 1);
    if (!to->member || !to->behind || !to->guest)
        return false;
    if (from->count) {
        memcpy(to->member, from->member, (size_t)from->count * sizeof *to->member);
        memcpy(to->behind, from->behind, (size_t)from->count * sizeof *to->behind);
    }
    if (from->joined)
        memcpy(to->guest, from->guest, (size_t)from->joined * sizeof *to->guest);
    return true;
}

static size_t bytes_of(const head *h)
{
    return sizeof *h + (2 * (size_t)h->count + h->losts) * sizeof(int32_t) +
           ((size_t)h->joined + h->guests) * sizeof(weir_guest);
}

static char *put(char *to, const void *from, size_t n)
{
    if (n)
        memcpy(to, from, n);
    return to + n;
}

void *weir_member_write(const weir_member_message *m, size_t *len)
{
    const weir_members *l = &m->list;
    head h = {.kind = (uint32_t)m->kind,
              .generation = m->generation,
              .round = m->round,
              .accepted = m->accepted,
              .step = m->step,
              .list_step = l->step,
              .list_generation = l->generation,
              .source = l->source,
              .next_id = l->next_id,
              .left = l->left,
              .count = (uint32_t)l->count,
              .joined = (uint32_t)l->joined,
              .guests = (uint32_t)m->guests,
              .losts = (uint32_t)m->losts,
              .leaves = m->leaves};
    size_t ranks = (size_t)l->count * sizeof(int32_t),
           joined = (size_t)l->joined * sizeof(weir_guest);
    char *bytes, *at;

    *len = bytes_of(&h);
    if (!(bytes = malloc(*len)))
        return NULL;
    memcpy(bytes, &h, sizeof h);
    at = put(bytes + sizeof h, l->member, ranks);
    at = put(at, l->behind, ranks);
    at = put(at, m->lost, (size_t)m->losts * sizeof *m->lost);
    at = put(at, l->guest, joined);
    put(at, m->guest, (size_t)m->guests * sizeof *m->guest);
    return bytes;
}

/* ---- reading ---- */

static bool sizes_fit(const head *h, size_t n)
{
    return h->count <= WEIR_MEMBERS_MAX && h->joined <= WEIR_GUESTS_MAX &&
           h->guests <= WEIR_GUESTS_MAX && h->joined <= h->count && h->losts <= WEIR_MEMBERS_MAX &&
           n == bytes_of(h);
}

static bool numbers_fit(const head *h)
{
    return h->kind >= WEIR_MEMBER_END && h->kind < WEIR_MEMBER_KINDS && h->generation >= 1 &&
           h->list_generation >= 0 && h->next_id >= 0 && h->left >= 0 && h->leaves <= 1;
}

static bool guests_good(weir_guest *g, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (g[i].keeper < 0 || !weir_meet_entry_good(&g[i].entry))
            return false;
    return true;
}

/* Ranks rise, are below next_id, and the source is one of those who do not come. */
static bool list_good(const weir_members *l)
{
    bool source = false;

    for (int i = 0; i < l->count; i++) {
        if (l->member[i] < 0 || l->member[i] >= l->next_id ||
            (i && l->member[i] <= l->member[i - 1]))
            return false;
        if (l->behind[i] != 0 && l->behind[i] != 1)
            return false;
        source |= i < l->count - l->joined && l->member[i] == l->source && !l->behind[i];
    }
    return !l->count || source;
}

/* Is there a list where there must be one, and none where there must not. */
static bool list_fits(const weir_member_message *m)
{
    bool must = m->kind == WEIR_MEMBER_PROPOSE || m->kind == WEIR_MEMBER_DECIDE ||
                (m->kind == WEIR_MEMBER_PROMISE && m->accepted);

    return must ? m->list.count > 0 : !m->list.count;
}

static void copy_head(const head *h, weir_member_message *m)
{
    *m = (weir_member_message){.kind = (weir_member_kind)h->kind,
                               .generation = h->generation,
                               .round = h->round,
                               .accepted = h->accepted,
                               .step = h->step,
                               .leaves = h->leaves != 0,
                               .losts = (int)h->losts,
                               .guests = (int)h->guests};
    m->list = (weir_members){.generation = h->list_generation,
                             .source = h->source,
                             .next_id = h->next_id,
                             .left = h->left,
                             .step = h->list_step,
                             .count = (int)h->count,
                             .joined = (int)h->joined};
}

bool weir_member_peek(const void *bytes, size_t n, weir_member_kind *kind, int *generation)
{
    head h;

    if (n < sizeof h)
        return false;
    memcpy(&h, bytes, sizeof h);
    *kind = (weir_member_kind)h.kind;
    *generation = h.generation;
    return sizes_fit(&h, n) && numbers_fit(&h);
}

static const char *get(void *to, const char *from, size_t n)
{
    if (n)
        memcpy(to, from, n);
    return from + n;
}

bool weir_member_read(const void *bytes, size_t n, weir_arena *arena, weir_member_message *m)
{
    const char *at = bytes;
    head h;

    if (n < sizeof h)
        return false;
    memcpy(&h, at, sizeof h);
    if (!sizes_fit(&h, n) || !numbers_fit(&h))
        return false;
    copy_head(&h, m);
    m->list.member = WEIR_NEW(arena, int, h.count + 1);
    m->list.behind = WEIR_NEW(arena, int, h.count + 1);
    m->list.guest = WEIR_NEW(arena, weir_guest, h.joined + 1);
    m->lost = WEIR_NEW(arena, int, h.losts + 1);
    m->guest = WEIR_NEW(arena, weir_guest, h.guests + 1);
    if (!m->list.member || !m->list.behind || !m->lost || !m->list.guest || !m->guest)
        return false;
    at = get(m->list.member, at + sizeof h, h.count * sizeof(int32_t));
    at = get(m->list.behind, at, h.count * sizeof(int32_t));
    at = get(m->lost, at, h.losts * sizeof(int32_t));
    at = get(m->list.guest, at, h.joined * sizeof(weir_guest));
    get(m->guest, at, h.guests * sizeof(weir_guest));
    return guests_good(m->list.guest, h.joined) && guests_good(m->guest, h.guests) &&
           list_good(&m->list) && list_fits(m);
}
