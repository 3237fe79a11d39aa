/* sim_guests.c - those that come while the run goes on: their way to a door and in, and the seats
 * that ranks have.
 *
 * A guest goes to the door of a node that is a member, one after the other from a place that the
 * seed draws. What is said there takes a latency, waits for the end of a pause, and is lost where
 * the link is cut: it is said again. A door whose keeper has ended is closed, and the guest goes on
 * to another; so it does where nobody answers for long. Those that are to be members greet each
 * other, as real ones do; who has not greeted within the time-out is given up. */
#include "core/log.h"
#include "net/member_message.h"
#include "net/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds between two questions; and until a door that says nothing is left for another. */
static const double AGAIN = 0.5, SILENT = 3;

typedef enum { KNOCK, WELCOME, READY, ADMIT, GONE, GREET } call_kind;

/* What is said. */
typedef struct weir_sim_call {
    call_kind kind;
    int from, to; /* nodes */
    int rank;     /* GREET: the sender's; ADMIT: the receiver's; of guests: their so-many-th door */
    size_t n;
    char bytes[];
} weir_sim_call;

/* ---- seats ---- */

weir_err weir_sim_seats(weir_sim *s, int seats)
{
    weir_sim_node **seat;
    int *machine;

    if (seats <= s->seats)
        return WEIR_OK;
    if ((seat = realloc(s->seat, (size_t)seats * sizeof *seat)))
        s->seat = seat;
    if ((machine = realloc(s->machine, (size_t)seats * sizeof *machine)))
        s->machine = machine;
    for (int i = 0; i < s->nodes; i++)
        s->node[i].net.machine = s->machine;
    if (!seat || !machine)
        return weir_fail_nomem((size_t)seats * sizeof *seat);
    for (int r = s->seats; r < seats; r++) {
        seat[r] = NULL;
        machine[r] = r;
    }
    s->seats = seats;
    return WEIR_OK;
}

void weir_sim_sit(weir_sim *s, int rank, weir_sim_node *a)
{
    int r = 0;

    s->seat[rank] = a;
    while (r < rank && !(s->seat[r] && s->seat[r]->machine == a->machine))
        r++;
    s->machine[rank] = r;
}

static void fill_entry(const weir_sim *s, weir_sim_node *a, weir_meet_entry *e)
{
    *e = (weir_meet_entry){.machine = (uint64_t)a->machine, .pid = weir_sim_index(&a->net)};
    snprintf(e->host, sizeof e->host, "%s", s->rank_info->host);
    snprintf(e->at, sizeof e->at, "%s", WEIR_MEET_HERE);
}

/* ---- talking ---- */

/* Comes after a latency; or, of those that are said only once, when the link has healed. */
static void say(weir_sim *s, const weir_sim_call *what, const void *bytes)
{
    weir_sim_call *c;
    double since, heals = weir_sim_cut_until(s, what->from, what->to, &since);
    bool again = what->kind == KNOCK || what->kind == READY;

    if ((heals > 0 && again) || heals >= WEIR_NEVER)
        return;
    if (!(c = malloc(sizeof *c + what->n))) {
        s->nomem = true;
        return;
    }
    *c = *what;
    if (what->n)
        memcpy(c->bytes, bytes, what->n);
    weir_sim_push(s, (heals > s->now ? heals : s->now) + weir_sim_latency(s, what->from, what->to),
                  WEIR_SIM_CALL, what->to, c);
}

static void wake(const weir_sim_node *a)
{
    if (a->waiter)
        weir_sched_ready(a->waiter);
}

/* ---- a member's door ---- */

static bool keeps_door(const weir_sim_node *a)
{
    return a->here && !weir_sim_gone(a) && !weir_net_outside(&a->net) && a->net.welcome;
}

weir_err weir_sim_invite(weir_net *n)
{
    (void)n; /* its welcome is its door */
    return WEIR_OK;
}

static void on_guest(weir_sim *s, weir_sim_node *a, const weir_sim_call *c)
{
    weir_sim_call welcome = {WELCOME, c->to, c->from, 0, a->net.welcome_bytes};
    weir_guest g = {.token = (uint64_t)c->rank << 32 | (uint32_t)(c->from + 1),
                    .keeper = a->net.rank};

    if (c->kind == GONE) {
        weir_guests_remove(&a->net, g.token);
    } else if (c->kind == KNOCK && keeps_door(a)) {
        say(s, &welcome, a->net.welcome);
    } else if (c->kind == READY && keeps_door(a) && !weir_sim_gone(&s->node[c->from])) {
        fill_entry(s, &s->node[c->from], &g.entry);
        weir_guests_add(&a->net, &g);
    }
}

void weir_sim_tell_guests(weir_net *n, const weir_members *l)
{
    weir_sim *s = weir_sim_of(n);
    weir_member_message say_it = {.kind = WEIR_MEMBER_DECIDE,
                                  .generation = l->generation,
                                  .list = *l};
    size_t len;
    void *bytes = weir_member_write(&say_it, &len);

    s->nomem |= !bytes;
    for (int i = 0; i < l->joined && bytes; i++)
        if (l->guest[i].keeper == n->rank)
            say(s,
                &(weir_sim_call){ADMIT, weir_sim_index(n), l->guest[i].entry.pid,
                                 l->member[l->count - l->joined + i], len},
                bytes);
    free(bytes);
}

/* ---- a guest ---- */

static void leave_door(weir_sim *s, weir_sim_node *a)
{
    if (a->door < 0)
        return;
    say(s, &(weir_sim_call){GONE, weir_sim_index(&a->net), a->door, a->doors, 0}, NULL);
    a->last_door = a->door;
    a->door = -1;
}

/* The next one that is open. */
static void find_door(weir_sim *s, weir_sim_node *a)
{
    int me = weir_sim_index(&a->net);
    weir_rng draw = weir_rng_at((uint64_t)s->o->seed, WEIR_RNG_SIM, 3ull << 56, (uint32_t)me);

    if (a->last_door < 0)
        a->last_door = (int)weir_rng_below(&draw, (uint64_t)s->nodes);
    for (int k = 1; k <= s->nodes && a->door < 0; k++) {
        int i = (a->last_door + k) % s->nodes;
        if (i != me && keeps_door(&s->node[i]))
            a->door = i;
    }
    a->doors++;
    a->at_door = s->now;
}

static weir_err nobody(const weir_sim_node *a, double waited)
{
    return weir_fail(WEIR_SILENT,
                     a->door >= 0
                         ? "the run has not taken this process in within %.0f s"
                         : "no run that can be joined is there (waited %.0f s): it is over",
                     waited);
}

/* Says the same again and again until the answer has come. patience: seconds. [blocks] */
static weir_err ask(weir_net *n, call_kind kind, double patience, weir_sim_call **answer)
{
    weir_sim *s = weir_sim_of(n);
    weir_sim_node *a = weir_sim_node_of(n);
    call_kind wanted = kind == KNOCK ? WELCOME : ADMIT;
    double begun = s->now;

    while (!a->told || a->told->kind != wanted) {
        free(a->told);
        a->told = NULL;
        if (s->now - begun > patience)
            return nobody(a, s->now - begun);
        if (kind == KNOCK && s->now - a->at_door > SILENT)
            leave_door(s, a);
        if (a->door < 0)
            find_door(s, a);
        if (a->door >= 0)
            say(s, &(weir_sim_call){kind, weir_sim_index(n), a->door, a->doors, 0}, NULL);
        a->waiter = s->sched.current;
        weir_sched_block(n, s->now + AGAIN);
        a->waiter = NULL;
        if (n->closing || atomic_load(&n->aborted))
            return weir_net_lost(n);
    }
    *answer = a->told;
    a->told = NULL;
    return WEIR_OK;
}

static weir_err copy(const weir_sim_call *c, void **out, size_t *n)
{
    if (!(*out = malloc(c->n + 1)))
        return weir_fail_nomem(c->n);
    memcpy(*out, c->bytes, c->n);
    *n = c->n;
    return WEIR_OK;
}

weir_err weir_sim_knock(weir_net *n, void **welcome, size_t *len)
{
    weir_sim_call *c = NULL;
    weir_err err = ask(n, KNOCK, weir_sim_of(n)->timeout, &c);

    if (!err)
        err = copy(c, welcome, len);
    free(c);
    return err;
}

/* Where all are: in this world everybody knows. */
static weir_err list_seats(const weir_sim *s, weir_meet_entry **entry, int *entries)
{
    if (!(*entry = calloc((size_t)s->seats, sizeof **entry)))
        return weir_fail_nomem((size_t)s->seats * sizeof **entry);
    for (int r = 0; r < s->seats; r++)
        if (s->seat[r])
            fill_entry(s, s->seat[r], &(*entry)[r]);
    *entries = s->seats;
    return WEIR_OK;
}

weir_err weir_sim_wait_in(weir_net *n, void **list, size_t *len, weir_meet_entry **entry,
                          int *entries)
{
    weir_sim *s = weir_sim_of(n);
    weir_sim_call *c = NULL;
    weir_err err = ask(n, READY, s->stall, &c);

    if (!err)
        err = copy(c, list, len);
    if (!err)
        err = weir_sim_seats(s, c->rank + 1);
    if (!err) {
        weir_sim_sit(s, c->rank, weir_sim_node_of(n));
        err = list_seats(s, entry, entries);
    }
    if (!err) {
        n->rank = c->rank;
        if (weir_sim_node_of(n)->door != c->from) /* one that it had left had it in already */
            leave_door(s, weir_sim_node_of(n));
        weir_sim_node_of(n)->door = -1;
        s->count.mishaps.joins++;
    }
    free(c);
    return err;
}

/* ---- links ---- */

/* Greetings of ranks below `size` can be kept. */
static bool make_room(weir_sim_node *a, int size)
{
    bool *greeted = size > a->greetings ? realloc(a->greeted, (size_t)size) : a->greeted;

    if (!greeted)
        return false;
    a->greeted = greeted;
    for (; a->greetings < size; a->greetings++)
        greeted[a->greetings] = false;
    return true;
}

weir_err weir_sim_grow(weir_net *n, int size)
{
    if (!make_room(weir_sim_node_of(n), size))
        return weir_fail_nomem((size_t)size);
    return weir_sim_seats(weir_sim_of(n), size);
}

weir_err weir_sim_link(weir_net *n, int rank, const weir_meet_entry *e)
{
    weir_sim *s = weir_sim_of(n);

    if (e->pid >= s->nodes)
        return weir_fail(WEIR_INVALID, "there is no node %d", e->pid);
    weir_sim_sit(s, rank, &s->node[e->pid]);
    if (weir_sim_gone(&s->node[e->pid]))
        weir_sim_hears_end(s, weir_sim_index(n), rank);
    return WEIR_OK;
}

weir_err weir_sim_greet(weir_net *n, int peer)
{
    weir_sim *s = weir_sim_of(n);
    weir_sim_node *a = weir_sim_node_of(n), *b = weir_sim_at(s, peer);
    double until = s->now + s->timeout;
    int who;

    say(s, &(weir_sim_call){GREET, weir_sim_index(n), weir_sim_index(&b->net), n->rank, 0}, NULL);
    while (!a->greeted[peer]) {
        if (!weir_net_alive(n, peer) || weir_loss_all(n, WEIR_EVER, &who))
            return WEIR_OK; /* whoever needs it finds out */
        if (s->now >= until) {
            weir_liveness_give_up(n, peer, WEIR_LOST, "did not come");
            return WEIR_OK;
        }
        a->waiter = s->sched.current;
        weir_sched_block(n, until);
        a->waiter = NULL;
    }
    return WEIR_OK;
}

/* It may come before this node knows of that rank. */
static void on_greeting(weir_sim *s, weir_sim_node *a, const weir_sim_call *c)
{
    if (!make_room(a, c->rank + 1)) {
        s->nomem = true;
        return;
    }
    a->greeted[c->rank] = true;
    wake(a);
}

void weir_sim_given_up(weir_sim_node *a, int rank)
{
    if (rank < a->greetings)
        a->greeted[rank] = false;
}

/* ---- what comes ---- */

void weir_sim_on_call(weir_sim *s, const weir_sim_event *e)
{
    weir_sim_node *a = &s->node[e->node];
    weir_sim_call *c = e->thing;
    bool waits = weir_net_outside(&a->net) && (a->door == c->from || c->kind == ADMIT);

    if (weir_sim_put_off(s, e)) {
        if (a->paused_until >= WEIR_NEVER)
            free(c);
        return;
    }
    if (weir_sim_gone(a)) {
        free(c);
    } else if (c->kind == GREET) {
        on_greeting(s, a, c);
        free(c);
    } else if (c->kind == WELCOME || c->kind == ADMIT) {
        free(waits ? a->told : c);
        if (waits)
            a->told = c;
        if (waits)
            wake(a);
    } else {
        on_guest(s, a, c);
        free(c);
    }
}

void weir_sim_guests_look(weir_sim *s, weir_sim_node *gone)
{
    int who = weir_sim_index(&gone->net);

    for (int i = s->starters; i < s->nodes; i++)
        if (s->node[i].door == who && !weir_sim_gone(&s->node[i])) {
            leave_door(s, &s->node[i]);
            wake(&s->node[i]);
        }
    if (gone->door >= 0)
        leave_door(s, gone);
    wake(gone);
}

void weir_sim_guests_close(weir_sim *s)
{
    for (size_t i = 0; i < s->events; i++)
        if (s->heap[i].kind == WEIR_SIM_CALL)
            free(s->heap[i].thing);
    for (int i = 0; i < s->nodes; i++) {
        free(s->node[i].told);
        free(s->node[i].greeted);
    }
    free(s->seat);
}
