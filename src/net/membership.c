/* membership.c - see membership.h. A fibre hears what others say and whom net has lost; whoever
 * comes to rest waits for what it makes of that. */
#include "core/log.h"
#include "net/membership_inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds. A member that is not the lowest waits so long for a round of another before it begins
 * one, and so much longer for each that is lower; a launcher takes so long to reap, at most; and so
 * often is looked whether it has. */
static const double PATIENCE = 1, MORE = 0.25, REAPED_WITHIN = 3, LOOK = 0.02;
enum { EARLIES = 64 }; /* messages that are kept */

/* ---- talking ---- */

static void free_sent(weir_membership *m)
{
    for (outgoing **at = &m->out; *at;) {
        outgoing *o = *at;
        if (!o->op.done) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        free(o->bytes);
        free(o);
    }
}

void weir_membership_send(weir_membership *m, int rank, const weir_member_message *what)
{
    outgoing *o = calloc(1, sizeof *o);
    size_t len;

    free_sent(m);
    if (!o || !(o->bytes = weir_member_write(what, &len))) {
        free(o);
        weir_net_abort(m->net, WEIR_FAILED);
        return;
    }
    o->next = m->out;
    m->out = o;
    weir_net_send(m->net, rank, weir_tag(WEIR_CHANNEL_MEMBERS, 0, 0), o->bytes, len, &o->op);
}

/* To all other members that are there. */
void weir_membership_send_all(weir_membership *m, const weir_member_message *what)
{
    for (int i = 0; i < m->now.count; i++)
        if (m->now.member[i] != m->net->rank && weir_net_alive(m->net, m->now.member[i]))
            weir_membership_send(m, m->now.member[i], what);
}

weir_member_message weir_membership_say(const weir_membership *m, weir_member_kind kind,
                                        uint64_t round)
{
    return (weir_member_message){.kind = kind, .generation = m->now.generation + 1, .round = round};
}

static void wake(weir_membership *m)
{
    if (m->waiter)
        weir_sched_ready(m->waiter);
}

/* ---- who counts ---- */

int weir_membership_place(const weir_membership *m, int rank)
{
    for (int i = 0; i < m->now.count; i++)
        if (m->now.member[i] == rank)
            return i;
    return -1;
}

static bool is_here(const weir_membership *m, int rank)
{
    return rank == m->net->rank || weir_net_alive(m->net, rank);
}

/* All members are of one launcher, which says for certain who has died. */
static bool board_counts(const weir_membership *m)
{
    const weir_board *b = m->net->board;

    for (int i = 0; b && i < m->now.count; i++)
        if ((uint64_t)m->now.member[i] >= b->ranks || !atomic_load(&b->slot[m->now.member[i]].pid))
            return false;
    return b != NULL;
}

static bool is_reaped(const weir_membership *m, int rank)
{
    return atomic_load(&m->net->board->slot[rank].reaped);
}

/* Do these members make a quorum? in: by place. */
bool weir_membership_quorum(const weir_membership *m,
                            bool (*in)(const weir_membership *, int place))
{
    bool board = board_counts(m), with_lowest = false, lowest = true;
    int whole = 0, part = 0;

    for (int i = 0; i < m->now.count; i++) {
        if (board && is_reaped(m, m->now.member[i]))
            continue;
        whole++;
        part += in(m, i);
        with_lowest |= lowest && in(m, i);
        lowest = false;
    }
#ifdef WEIR_BUG_QUORUM /* tests/check_storm: whoever is there goes on */
    return part > 0;
#endif
    return 2 * part > whole || (2 * part == whole && with_lowest);
}

bool weir_membership_is_here(const weir_membership *m, int place)
{
    return is_here(m, m->now.member[place]);
}

bool weir_membership_counts(const weir_membership *m,
                            bool (*accepted)(const weir_membership *, int place))
{
    for (int i = 0; board_counts(m) && i < m->now.count; i++)
        if (weir_membership_is_here(m, i) && !accepted(m, i))
            return false;
    return weir_membership_quorum(m, accepted);
}

static bool is_lowest(const weir_membership *m)
{
    int i = 0;

    while (!is_here(m, m->now.member[i]))
        i++;
    return m->now.member[i] == m->net->rank;
}

/* ---- deciding ---- */

/* On a launcher's board the first list of a generation stands for ever: is it this one? */
static bool stands_on_board(const weir_membership *m, const weir_members *list)
{
    _Atomic uint64_t *word = &m->net->board->list;
    uint64_t mine = (uint64_t)list->generation << 32 | weir_members_hash(list),
             old = atomic_load(word);

    while (old >> 32 < (uint64_t)list->generation)
        if (atomic_compare_exchange_weak(word, &old, mine))
            return true;
    return old == mine;
}

void weir_membership_evict(weir_membership *m)
{
    m->evicted = true;
    weir_net_end(m->net, m->now.generation);
    wake(m);
}

void weir_membership_no_memory(weir_membership *m) { weir_net_abort(m->net, WEIR_FAILED); }

/* Nothing is known yet of the generation after this. */
static bool begin_anew(weir_membership *m)
{
    m->next_arena = weir_arena_new();
    m->lost = m->next_arena ? WEIR_NEW(m->next_arena, int, m->now.count) : NULL;
    m->resting = false;
    m->promised = m->accepted = 0;
    m->accepted_list = (weir_members){0};
    m->asked_by = -1;
    m->hopeless = 0;
    m->lead = (leading){0};
    return m->lost != NULL;
}

/* It is agreed. Who is not told, because the one who tells has died, asks others in the next round
 * that it begins or hears of. */
static void decide(weir_membership *m, const weir_members *list)
{
    bool stays = weir_members_has(list, m->net->rank) || (m->resting && m->offer.leaves);
    weir_members next;

    if (!stays) {
        weir_membership_evict(m);
        return;
    }
    if (!weir_members_copy(list, m->next_arena, &next)) {
        weir_membership_no_memory(m);
        return;
    }
    weir_arena_free(m->arena);
    m->arena = m->next_arena;
    m->now = next;
    m->decided = true;
    if (!begin_anew(m))
        weir_membership_no_memory(m);
    wake(m);
}

void weir_membership_decide(weir_membership *m)
{
    if (board_counts(m) && !stands_on_board(m, &m->lead.list)) {
        weir_log(WEIR_LOG_WARN, "net", "another list of generation %d was agreed before",
                 m->lead.list.generation);
        weir_membership_evict(m);
        return;
    }
    weir_member_message all = weir_membership_say(m, WEIR_MEMBER_DECIDE, 0);
    all.list = m->lead.list;
    weir_membership_send_all(m, &all);
    decide(m, &m->lead.list);
}

/* ---- what others say ---- */

static void refuse(weir_membership *m, int rank)
{
    weir_member_message answer = weir_membership_say(m, WEIR_MEMBER_REFUSE, m->promised);

    if (weir_net_alive(m->net, rank))
        weir_membership_send(m, rank, &answer);
}

/* Whoever asks is answered, at once or when this rank is at rest: it waits for that. */
static void on_prepare(weir_membership *m, int from, const weir_member_message *p)
{
    weir_member_message answer;

    weir_net_end(m->net, m->now.generation);
    if (p->round < m->promised) {
        refuse(m, from);
        return;
    }
    m->promised = p->round;
    m->heard_at = m->net->world->now(m->net->sched);
    m->lead.round = 0;
    if (!m->resting) { /* compute is on its way: it has its say when it has come */
        if (m->asked_by >= 0 && m->asked_by != from)
            refuse(m, m->asked_by);
        m->asked_by = from;
        return;
    }
    answer = weir_round_promise(m, p->round);
    weir_membership_send(m, from, &answer);
}

static void on_propose(weir_membership *m, int from, const weir_member_message *p)
{
    weir_member_message answer;

    if (p->round < m->promised) {
        refuse(m, from);
        return;
    }
    if (!weir_members_copy(&p->list, m->next_arena, &m->accepted_list))
        return; /* as if it had not come */
    m->promised = m->accepted = p->round;
    m->heard_at = m->net->world->now(m->net->sched);
    answer = weir_membership_say(m, WEIR_MEMBER_ACCEPT, p->round);
    weir_membership_send(m, from, &answer);
}

/* A round of this rank's is over before it came to anything. */
static void on_refuse(weir_membership *m, const weir_member_message *p)
{
    if (p->round <= m->lead.round)
        return;
    m->lead.round = 0;
    if (p->round > m->promised)
        m->promised = p->round; /* the next one of ours is higher */
    m->heard_at = m->net->world->now(m->net->sched);
}

static void on_answer(weir_membership *m, int place, const weir_member_message *p)
{
    if (!m->lead.round || p->round != m->lead.round)
        return;
    if (p->kind == WEIR_MEMBER_PROMISE)
        weir_round_promised(m, place, p);
    else
        weir_round_accepted(m, place);
}

/* Something about a generation that this rank has agreed on already: whoever says it has not heard.
 */
static void tell_news(weir_membership *m, int from)
{
    weir_member_message news = {.kind = WEIR_MEMBER_DECIDE,
                                .generation = m->now.generation,
                                .list = m->now};

    if (m->now.generation > 0 && weir_net_alive(m->net, from))
        weir_membership_send(m, from, &news);
}

/* Of the next generation, from a member of this one. */
static void on_member(weir_membership *m, int from, const weir_member_message *p)
{
    switch (p->kind) {
    case WEIR_MEMBER_END:
        weir_net_end(m->net, m->now.generation);
        break;
    case WEIR_MEMBER_PREPARE:
        on_prepare(m, from, p);
        break;
    case WEIR_MEMBER_PROPOSE:
        on_propose(m, from, p);
        break;
    case WEIR_MEMBER_REFUSE:
        on_refuse(m, p);
        break;
    default:
        on_answer(m, weir_membership_place(m, from), p);
    }
}

static void on_message(weir_membership *m, int from, const weir_member_message *p)
{
    bool asks = p->kind != WEIR_MEMBER_DECIDE && p->kind != WEIR_MEMBER_ACCEPT;

    if (p->generation <= m->now.generation) {
        if (asks)
            tell_news(m, from);
    } else if (p->kind == WEIR_MEMBER_DECIDE) {
        if (p->generation == m->now.generation + 1)
            decide(m, &p->list);
        else if (!weir_members_has(&p->list, m->net->rank))
            weir_membership_evict(m);
    } else if (weir_membership_place(m, from) >= 0) {
        on_member(m, from, p);
    }
}

/* Somebody is ahead, and knows what was agreed: asks for it, and keeps what it said until then. */
static void keep_early(weir_membership *m, const weir_net_op *o)
{
    weir_member_message ask = weir_membership_say(m, WEIR_MEMBER_END, 0);
    early *e = m->earlies < EARLIES ? malloc(sizeof *e + o->len) : NULL;

    if (e) {
        *e = (early){.from = o->peer, .len = o->len};
        memcpy(e->bytes, o->data, o->len);
        *m->early_last = e;
        m->early_last = &e->next;
        m->earlies++;
    }
    weir_membership_send(m, o->peer, &ask);
}

static void take_message(weir_membership *m, int from, const void *bytes, size_t len)
{
    weir_arena *arena = weir_arena_new();
    weir_member_message p;

    if (!arena)
        weir_membership_no_memory(m);
    else if (weir_member_read(bytes, len, arena, &p))
        on_message(m, from, &p);
    weir_arena_free(arena);
}

/* What came too early is due now, or will be. */
static void take_early(weir_membership *m)
{
    early *e = m->early, *next;

    m->early = NULL;
    m->early_last = &m->early;
    m->earlies = 0;
    for (; e; e = next) {
        next = e->next;
        take_message(m, e->from, e->bytes, e->len);
        free(e);
    }
}

static void read_message(weir_membership *m, const weir_net_op *o)
{
    weir_member_kind kind;
    int generation, before = m->now.generation;

    if (!weir_member_peek(o->data, o->len, &kind, &generation))
        weir_log(WEIR_LOG_WARN, "net", "a message of rank %d about members makes no sense: dropped",
                 o->peer);
    else if (generation > before + 1 && kind != WEIR_MEMBER_DECIDE)
        keep_early(m, o);
    else
        take_message(m, o->peer, o->data, o->len);
    if (m->now.generation > before)
        take_early(m);
}

/* ---- the fibre ---- */

/* Those that are left are too few, and nobody will come back. */
static void look_for_hope(weir_membership *m, double now)
{
    if (weir_membership_quorum(m, weir_membership_is_here)) {
        m->hopeless = 0;
        return;
    }
    if (m->hopeless <= 0)
        m->hopeless = now;
    if (!board_counts(m) || now - m->hopeless > REAPED_WITHIN)
        wake(m);
}

/* While this rank is at rest: is it its turn to do something? Gives when to look again. */
static double look(weir_membership *m)
{
    double now = m->net->world->now(m->net->sched), patience = PATIENCE;

    if (!m->resting || m->evicted)
        return WEIR_NEVER;
    look_for_hope(m, now);
    if (m->hopeless > 0)
        return now + LOOK;
    if (m->lead.round) { /* one that leaves in order wakes nobody */
        weir_round_look(m);
        return !m->resting ? WEIR_NEVER : now + (board_counts(m) ? LOOK : PATIENCE);
    }
    for (int i = 0; m->now.member[i] != m->net->rank; i++)
        patience += weir_membership_is_here(m, i) ? MORE : 0;
    if (is_lowest(m) && !m->promised)
        patience = 0;
    if (now >= m->heard_at + patience) {
        weir_round_begin(m);
        return look(m);
    }
    return m->heard_at + patience;
}

static bool is_over(const weir_membership *m)
{
    return m->closing || m->net->closing || atomic_load(&m->net->aborted);
}

/* Whatever happens wakes it: a message, a loss, this rank at rest. */
static weir_err serve(void *membership)
{
    weir_membership *m = membership;
    weir_net *n = m->net;
    weir_net_op *op = &m->heard;
    const weir_net_want anything = {.peer = WEIR_ANY,
                                    .tag = weir_tag(WEIR_CHANNEL_MEMBERS, 0, 0),
                                    .mask = WEIR_TAG_CHANNEL};

    m->heard.done = true;
    while (!is_over(m)) {
        if (m->heard.done)
            weir_net_recv_masked(n, &anything, op);
        double until = look(m);
        if (!op->done) {
            op->waiter = m->fibre;
            weir_sched_block(n, until);
            op->waiter = NULL;
        }
        if (op->done && !op->err)
            read_message(m, op);
        if (op->done)
            weir_net_release(n, op);
    }
    weir_net_cancel(n, &op, 1);
    wake(m);
    return WEIR_OK;
}

/* ---- the verbs ---- */

static weir_err too_few(const weir_membership *m)
{
    int here = 0;

    for (int i = 0; i < m->now.count; i++)
        here += weir_membership_is_here(m, i);
    return weir_fail(
        WEIR_LOST,
        "%d of the %d members of generation %d can be reached from here: too few to go "
        "on, as the others might",
        here, m->now.count, m->now.generation);
}

/* At rest: says so, and answers who has asked already. */
static void come_to_rest(weir_membership *m, const weir_offer *offer)
{
    weir_member_message all = weir_membership_say(m, WEIR_MEMBER_END, 0), answer;

    m->offer = *offer;
    m->resting = true;
    m->decided = false;
    m->heard_at = m->net->world->now(m->net->sched);
    weir_net_end(m->net, m->now.generation);
    weir_membership_send_all(m, &all);
    if (m->asked_by >= 0 && weir_net_alive(m->net, m->asked_by)) {
        answer = weir_round_promise(m, m->promised);
        weir_membership_send(m, m->asked_by, &answer);
    }
    m->asked_by = -1;
    weir_sched_ready(m->fibre); /* it may be this rank's turn */
}

weir_err weir_membership_agree(weir_membership *m, const weir_offer *offer,
                               const weir_members **next)
{
    weir_net *n = m->net;

    *next = &m->now;
    if (!m->evicted)
        come_to_rest(m, offer);
    while (!m->decided && !m->evicted) {
        double now = n->world->now(n->sched);
        if (n->closing || atomic_load(&n->aborted))
            return weir_net_lost(n);
        if (m->hopeless > 0 && (!board_counts(m) || now - m->hopeless > REAPED_WITHIN))
            return too_few(m);
        m->waiter = n->sched->current;
        weir_sched_block(n, WEIR_NEVER);
        m->waiter = NULL;
    }
    if (!m->decided)
        return weir_fail(WEIR_STALE, "the others have gone on without this rank");
    m->decided = false;
    return WEIR_OK;
}

static weir_err copy_list(weir_membership *m, const weir_members *list)
{
    if (!(m->arena = weir_arena_new()) || !weir_members_copy(list, m->arena, &m->now))
        return weir_fail_nomem(0);
    return begin_anew(m) ? WEIR_OK : weir_fail_nomem(0);
}

static weir_err list_all(weir_membership *m)
{
    weir_net *n = m->net;

    m->now = (weir_members){.generation = n->generation, .next_id = n->size, .count = n->size};
    if (!(m->arena = weir_arena_new()) || !(m->now.member = WEIR_NEW(m->arena, int, n->size)) ||
        !(m->now.behind = WEIR_NEW(m->arena, int, n->size)))
        return weir_fail_nomem((size_t)n->size * sizeof *m->now.member);
    for (int i = 0; i < n->size; i++)
        m->now.member[i] = i;
    return begin_anew(m) ? WEIR_OK : weir_fail_nomem(0);
}

weir_err weir_membership_open(weir_net *n, int most, const weir_members *list,
                              weir_membership **out)
{
    weir_membership *m = *out = calloc(1, sizeof *m);

    if (!m)
        return weir_fail_nomem(sizeof *m);
    m->net = n;
    m->most = most;
    m->early_last = &m->early;
    WEIR_TRY(list ? copy_list(m, list) : list_all(m));
    WEIR_TRY(weir_net_fibre(n, "members", serve, m, &m->fibre));
    weir_sched_patient(m->fibre);
    return WEIR_OK;
}

void weir_membership_close(weir_membership *m)
{
    weir_net_op *op;

    if (!m)
        return;
    m->closing = true;
    if (m->fibre) {
        weir_sched_ready(m->fibre);
        weir_net_fibre_join(m->net, m->fibre);
    }
    for (outgoing *o = m->out, *next; o; o = next) {
        next = o->next;
        op = &o->op;
        weir_net_cancel(m->net, &op, 1);
        free(o->bytes);
        free(o);
    }
    for (early *e = m->early, *next; e; e = next) {
        next = e->next;
        free(e);
    }
    weir_arena_free(m->arena);
    weir_arena_free(m->next_arena);
    free(m);
}
