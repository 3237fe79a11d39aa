/* membership_round.c - leading a round: who promises, which list is proposed, who accepts it. See
 * membership.h. */
#include "core/log.h"
#include "net/membership_inside.h"

static bool has_promised(const weir_membership *m, int i) { return m->lead.voice[i].promised; }
static bool has_accepted(const weir_membership *m, int i) { return m->lead.voice[i].accepted; }

/* ---- the list ---- */

/* One that has been lost since it promised is not: others know of that, and would be apart from
 * it. */
static bool in_list(const weir_membership *m, int i)
{
    const voice *v = &m->lead.voice[i];

    return v->promised && !v->leaves && !v->apart && weir_membership_is_here(m, i);
}

/* How far it is apart from the others in the list: above all those who have lost it count, as it
 * may have died since it promised; then those whom it has lost. */
static int64_t conflicts(const weir_membership *m, int i)
{
    const voice *v = m->lead.voice;
    int64_t n = 0;

    for (int k = 0; k < m->now.count; k++)
        if (k != i && in_list(m, k))
            n += (v[k].lost[i] ? m->now.count : 0) + v[i].lost[k];
    return n;
}

/* Members that cannot talk to each other cannot go on together: who is farthest apart stays behind,
 * of equals the last, until nobody is. */
static void part_the_quarrelling(weir_membership *m)
{
    for (;;) {
        int64_t most = 0;
        int worst = -1;
        for (int i = 0; i < m->now.count; i++)
            if (in_list(m, i) && conflicts(m, i) && conflicts(m, i) >= most) {
                worst = i;
                most = conflicts(m, i);
            }
        if (worst < 0)
            return;
        m->lead.voice[worst].apart = true;
    }
}

/* Those who promised and stay; the newest step among all who promised, and who has it among those
 * who stay (one who leaves waits until all have it, so it is never alone with it). */
static bool list_those_who_promised(weir_membership *m, weir_members *l)
{
    *l = (weir_members){.generation = m->now.generation + 1,
                        .next_id = m->now.next_id,
                        .source = -1};
    l->member = WEIR_NEW(m->next_arena, int, m->now.count + m->lead.guests);
    l->behind = WEIR_NEW(m->next_arena, int, m->now.count + m->lead.guests);
    l->guest = WEIR_NEW(m->next_arena, weir_guest, m->lead.guests + 1);
    if (!l->member || !l->behind || !l->guest)
        return false;
    part_the_quarrelling(m);
    for (int i = 0; i < m->now.count; i++) {
        const voice *v = &m->lead.voice[i];
        l->left += v->promised && v->leaves;
        if (!in_list(m, i))
            continue;
        if (l->source < 0 || v->step > l->step) {
            l->step = v->step;
            l->source = m->now.member[i];
        }
        l->member[l->count++] = m->now.member[i];
    }
    for (int i = 0; i < l->count; i++)
        l->behind[i] = m->lead.voice[weir_membership_place(m, l->member[i])].step < l->step;
    return true;
}

/* As many of those at doors as there is room for; each gets a number that nobody has had. Whoever
 * keeps a door tells those who wait there, so it has to stay. */
static void add_guests(weir_membership *m, weir_members *l)
{
    int stay = l->count;

    for (int i = 0; i < m->lead.guests && l->count < m->most; i++) {
        bool kept = false;
        for (int k = 0; k < stay; k++)
            kept |= l->member[k] == m->lead.guest[i].keeper;
        if (!kept)
            continue;
        l->guest[l->joined++] = m->lead.guest[i];
        l->behind[l->count] = 1;
        l->member[l->count++] = l->next_id++;
    }
}

/* ---- proposing ---- */

static void try_decide(weir_membership *m)
{
    if (m->lead.round && m->lead.proposed && weir_membership_counts(m, has_accepted))
        weir_membership_decide(m);
}

static void propose(weir_membership *m)
{
    weir_member_message all = weir_membership_say(m, WEIR_MEMBER_PROPOSE, m->lead.round);
    leading *l = &m->lead;

    if (!l->accepted) {
        if (!list_those_who_promised(m, &l->list)) {
            weir_membership_no_memory(m);
            return;
        }
        add_guests(m, &l->list);
    }
    l->proposed = true;
    all.list = l->list;
    weir_membership_send_all(m, &all);
    /* this rank's own vote, unless it has promised more to another */
    if (m->promised <= l->round) {
        m->promised = m->accepted = l->round;
        m->accepted_list = l->list;
        l->voice[weir_membership_place(m, m->net->rank)].accepted = true;
    }
    try_decide(m);
}

/* All that are there have promised, or more than are needed would never come. */
static void try_propose(weir_membership *m)
{
    if (!m->lead.round || m->lead.proposed)
        return;
    for (int i = 0; i < m->now.count; i++)
        if (weir_membership_is_here(m, i) && !m->lead.voice[i].promised)
            return;
    if (weir_membership_quorum(m, has_promised))
        propose(m);
}

static void add_promise(weir_membership *m, int place, const weir_member_message *p)
{
    leading *l = &m->lead;
    voice *v = &l->voice[place];

    if (v->promised)
        return;
    v->promised = true;
    v->leaves = p->leaves;
    v->step = p->step;
    for (int i = 0; i < p->losts; i++)
        if (weir_membership_place(m, p->lost[i]) >= 0)
            v->lost[weir_membership_place(m, p->lost[i])] = true;
    if (p->accepted > l->accepted && weir_members_copy(&p->list, m->next_arena, &l->list))
        l->accepted = p->accepted;
    for (int i = 0; i < p->guests && l->guests < WEIR_GUESTS_MAX; i++)
        l->guest[l->guests++] = p->guest[i];
}

weir_member_message weir_round_promise(weir_membership *m, uint64_t round)
{
    weir_member_message p = weir_membership_say(m, WEIR_MEMBER_PROMISE, round);

    m->promised = round;
    p.step = m->offer.step;
    p.leaves = m->offer.leaves;
    p.accepted = m->accepted;
    p.guest = m->net->guest;
    p.guests = weir_net_guests(m->net);
    p.lost = m->lost;
    for (int i = 0; i < m->now.count; i++)
        if (!weir_membership_is_here(m, i))
            m->lost[p.losts++] = m->now.member[i];
    if (m->accepted)
        p.list = m->accepted_list;
    return p;
}

static bool make_room(weir_membership *m)
{
    size_t n = (size_t)m->now.count;
    bool *lost = WEIR_NEW(m->next_arena, bool, n *n);

    m->lead.voice = WEIR_NEW(m->next_arena, voice, n);
    m->lead.guest = WEIR_NEW(m->next_arena, weir_guest, WEIR_GUESTS_MAX);
    for (size_t i = 0; lost && m->lead.voice && i < n; i++)
        m->lead.voice[i].lost = lost + i * n;
    return lost && m->lead.voice && m->lead.guest;
}

void weir_round_begin(weir_membership *m)
{
    weir_member_message all, mine;
    uint64_t round = ((m->promised >> 32) + 1) << 32 | (uint64_t)m->net->rank;
    leading *l = &m->lead;

    *l = (leading){.round = round};
    if (!make_room(m)) {
        weir_membership_no_memory(m);
        return;
    }
    weir_log(WEIR_LOG_INFO, "net", "rank %d begins round %llu for generation %d", m->net->rank,
             (unsigned long long)(round >> 32), m->now.generation + 1);
    all = weir_membership_say(m, WEIR_MEMBER_PREPARE, round);
    weir_membership_send_all(m, &all);
    mine = weir_round_promise(m, round);
    add_promise(m, weir_membership_place(m, m->net->rank), &mine);
    m->heard_at = m->net->world->now(m->net->sched);
    try_propose(m);
}

void weir_round_promised(weir_membership *m, int place, const weir_member_message *p)
{
    add_promise(m, place, p);
    try_propose(m);
}

void weir_round_accepted(weir_membership *m, int place)
{
    if (!m->lead.proposed)
        return;
    m->lead.voice[place].accepted = true;
    try_decide(m);
}

void weir_round_look(weir_membership *m)
{
    try_propose(m);
    try_decide(m);
}
