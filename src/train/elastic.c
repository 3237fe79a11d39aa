/* elastic.c - see elastic.h. */
#include "train/elastic.h"
#include "net/membership.h"
#include "train/groups.h"
#include "train/progress.h"
#include "train/state_share.h"
#include "train/stop.h"
#include <math.h>
#include <stdlib.h>

/* Seconds: a signal that all members hear within them means that the run stops, not that one
 * leaves. */
static const double ALONE = 1;

struct weir_elastic {
    weir_membership *membership;
    weir_elastic_count count;
    weir_carried *carried; /* on its way from one generation to the next; NULL: all is in place */
    const weir_members *list; /* that was agreed last */
    int size, most;           /* members of it; that there may be */
    /* the generation whose state this is: an older one's until the list's source has told */
    int generation;
    bool out;    /* nothing can be agreed here any more: too few are left, or others have gone on */
    double told; /* when this rank was first seen to be told to stop; 0: it was not */
    bool leaves; /* it leaves with the next change */
    bool fresh;  /* it has just come, and has no state yet */
    void *welcome; /* what guests are told */
    size_t welcome_bytes;
};

/* ---- from beginning to end ---- */

static weir_err open_job(void *trainer)
{
    weir_trainer *t = trainer;

    t->elastic->most = t->set->max_workers ? (int)t->set->max_workers : t->mesh.all.size;
    return weir_membership_open(t->net, t->elastic->most, NULL, &t->elastic->membership);
}

static weir_err close_job(void *trainer)
{
    weir_trainer *t = trainer;

    weir_membership_close(t->elastic->membership);
    t->elastic->membership = NULL;
    return WEIR_OK;
}

weir_err weir_elastic_open(weir_trainer *t)
{
    if (!t->facts.elastic || (t->mesh.all.size == 1 && !t->rank_info->guests))
        return WEIR_OK;
    if (!(t->elastic = calloc(1, sizeof *t->elastic)))
        return weir_fail_nomem(sizeof *t->elastic);
    t->elastic->size = t->mesh.all.size;
    return weir_line_call(t->line, open_job, t);
}

void weir_elastic_close(weir_trainer *t)
{
    if (!t->elastic)
        return;
    weir_line_call(t->line, close_job, t);
    weir_carried_free(t->elastic->carried);
    free(t->elastic->welcome);
    free(t->elastic);
    t->elastic = NULL;
}

bool weir_elastic_can(const weir_trainer *t, weir_err err)
{
    return t->elastic && !t->elastic->out &&
           (err == WEIR_LOST || err == WEIR_SILENT || err == WEIR_STALE) && weir_net_over(t->net);
}

bool weir_elastic_apart(const weir_trainer *t) { return t->elastic && t->elastic->out; }

weir_elastic_count weir_elastic_counted(const weir_trainer *t)
{
    return t->elastic ? t->elastic->count : (weir_elastic_count){0};
}

/* ---- agreeing ---- */

static weir_err agree_job(void *trainer)
{
    weir_trainer *t = trainer;
    weir_offer offer = {.leaves = t->elastic->leaves};

    if (!t->elastic->fresh)
        offer.step = weir_state_newness(t, t->elastic->generation);
    return weir_membership_agree(t->elastic->membership, &offer, &t->elastic->list);
}

/* ---- the same state on all ---- */

typedef struct recovering {
    weir_trainer *t;
    weir_recovery r;
} recovering;

static weir_err recover_job(void *arg)
{
    recovering *a = arg;

    return a->t->exchange->recover(a->t->exchanger, &a->r);
}

static weir_err catch_up_job(void *trainer)
{
    weir_trainer *t = trainer;

    t->exchange->catch_up(t->exchanger);
    return WEIR_OK;
}

/* The source's state is taken. If the step that this one was in the middle of has been made, all it
 * had to give to it was given, and what it holds back and carries along is what it would be after
 * it. An exchange that can recover knows by itself what of it was given. */
static weir_err catch_up(weir_trainer *t, const weir_members *l)
{
    uint64_t before = t->step;
    bool made;

    WEIR_TRY(
        weir_state_receive(t, l, t->elastic->fresh, &t->elastic->count, sizeof t->elastic->count));
    weir_progress_jumped(t);
    made = !t->elastic->fresh && t->step > before;
    if (t->exchange->catch_up && (made || t->exchange->recover))
        WEIR_TRY(weir_line_call(t->line, catch_up_job, t));
    if (made)
        weir_model_commit(t->model);
    if (made || (!t->elastic->fresh && t->exchange->recover))
        WEIR_WITNESS(t, WEIR_SEEN_CATCH_UP, NULL);
    return WEIR_OK;
}

/* Whatever breaks off from here on: it is the state of this generation. */
static void has_state_of(weir_trainer *t, const weir_members *l)
{
    t->elastic->generation = l->generation;
    t->settled = t->step;
}

/* All who had a state were lost before anybody who came had taken it. */
static weir_err nothing_to_give(weir_trainer *t)
{
    t->elastic->out = true;
    return weir_fail(WEIR_LOST,
                     "rank %d had just come, and all members that had the run's state "
                     "are gone: go on from its last checkpoint with --resume",
                     weir_net_rank(t->net));
}

/* The source goes back to the first step of which something is missing. */
static weir_err give(weir_trainer *t, const weir_members *l, const weir_recovery *r)
{
    weir_elastic_count *c = &t->elastic->count;
    uint64_t samples;

    WEIR_TRY(weir_progress_back(t, r->step, r->untouched, &samples));
    c->repeated_samples += samples;
    has_state_of(t, l);
    return weir_state_send(t, l, r->moved, c, sizeof *c);
}

static weir_err come_to_one_state(weir_trainer *t, const weir_members *l)
{
    recovering a = {t, {.list = l, .step = t->step, .untouched = t->step}};

    if (l->source == weir_net_rank(t->net) && t->elastic->fresh)
        return nothing_to_give(t);
    if (t->exchange->recover)
        WEIR_TRY(weir_line_call(t->line, recover_job, &a));
    if (l->source == weir_net_rank(t->net))
        return give(t, l, &a.r);
    if (weir_state_goes_to(l, a.r.moved, weir_net_rank(t->net)))
        WEIR_TRY(catch_up(t, l));
    has_state_of(t, l);
    return WEIR_OK;
}

/* ---- counting ---- */

/* What the list says, once. */
static void count_list(weir_trainer *t, weir_change *change, int *lost)
{
    const weir_members *l = t->elastic->list;
    weir_elastic_count *c = &t->elastic->count;

    *lost = t->elastic->size - (l->count - l->joined) - l->left;
    t->elastic->size = l->count;
    c->generations++;
    c->joins += (uint64_t)l->joined;
    c->left += (uint64_t)l->left;
    c->losses += (uint64_t)*lost;
    change->list = l;
    change->lost += *lost;
    change->joined += l->joined;
    change->went += l->left;
}

/* What is held back here, as a gradient: the square of its norm. */
static double held_squared(const weir_trainer *t)
{
    weir_backlog b = {0};

    for (const weir_lane *l = t->lane; l < t->lane + t->lanes; l++)
        weir_lane_backlog(l, &b);
    return b.sumsq;
}

/* On all members: nobody knows what the lost ones held; they are taken to have held as much as
 * others do. */
static weir_err count_residual(weir_trainer *t, int lost)
{
    weir_elastic_count *c = &t->elastic->count;
    double held = held_squared(t);

    WEIR_TRY(weir_trainer_sum(t, &held, 1));
    held *= (double)lost / t->mesh.all.size;
    c->lost_residual = sqrt(c->lost_residual * c->lost_residual + held);
    return WEIR_OK;
}

void weir_change_add(weir_change *c, const weir_change *before)
{
    c->lost += before->lost;
    c->joined += before->joined;
    c->went += before->went;
    c->repeated += before->repeated;
    c->seconds += before->seconds;
    if (before->fault.code)
        c->fault = before->fault;
}

/* ---- going on ---- */

static weir_err admit_job(void *trainer)
{
    weir_trainer *t = trainer;

    return weir_net_admit(t->net, t->elastic->list);
}

static weir_err invite_job(void *trainer)
{
    weir_trainer *t = trainer;

    return weir_net_invite(t->net, t->elastic->welcome, t->elastic->welcome_bytes);
}

static weir_err follow(weir_trainer *t, int lost)
{
    const weir_members *l = t->elastic->list;
    weir_carried **c = &t->elastic->carried;
    uint64_t streams;

    if (!t->elastic->fresh)
        WEIR_TRY(weir_line_call(t->line, admit_job, t));
    WEIR_TRY(come_to_one_state(t, l));
    if (!*c)
        WEIR_TRY(weir_carried_take(t, !t->elastic->fresh, c));
    t->elastic->fresh = false;
    WEIR_TRY(weir_groups_renew(t, l));
    WEIR_TRY(weir_carried_give(t, *c, &streams));
    weir_carried_free(*c);
    *c = NULL;
    t->elastic->count.lost_streams += streams;
    WEIR_TRY(count_residual(t, lost));
    if (t->elastic->welcome)
        WEIR_TRY(weir_line_call(t->line, invite_job, t));
    return weir_trainer_begin(t);
}

/* Agrees, and does what follows from it, again and again until nothing breaks it off. */
static weir_err agree_and_follow(weir_trainer *t, weir_change *change)
{
    uint64_t before = t->elastic->count.repeated_samples;
    weir_err err;
    int lost;

    do {
        weir_line_clear(t->line);
        weir_net_phase(t->net, WEIR_PHASE_AGREE, t->step);
        if ((err = weir_line_call(t->line, agree_job, t)))
            return t->elastic->out = true, err;
        if (!change->fault.code) /* others may have said so before it was seen here */
            weir_net_ended_by(t->net, &change->fault);
        WEIR_WITNESS(t, WEIR_SEEN_AGREED, t->elastic->list);
        count_list(t, change, &lost);
        if ((change->left = t->elastic->leaves))
            return WEIR_OK;
        err = follow(t, lost);
    } while (err && weir_elastic_can(t, err));
    change->repeated += t->elastic->count.repeated_samples - before;
    return err;
}

weir_err weir_elastic_go_on(weir_trainer *t, weir_change *change)
{
    double begun = weir_now(t->rt);
    weir_err err;

    t->change = false;
    t->stopped = 0; /* not all may have heard of it: they agree on it again */
    err = agree_and_follow(t, change);
    change->seconds += weir_now(t->rt) - begun;
    return err;
}

/* ---- by wish ---- */

bool weir_elastic_leaves(weir_trainer *t)
{
    if (!t->elastic || !weir_stop_here(t))
        return false;
    if (t->elastic->told <= 0)
        t->elastic->told = weir_now(t->rt);
    return weir_now(t->rt) - t->elastic->told > ALONE;
}

bool weir_elastic_invites(const weir_trainer *t)
{
    return t->elastic && weir_net_guests(t->net) > 0 && t->mesh.all.size < t->elastic->most;
}

void weir_elastic_heed(weir_trainer *t, const weir_noted *all)
{
    t->stopped = !t->elastic || all->told >= t->mesh.all.size ? all->stop : 0;
    t->change = t->elastic && !t->stopped && (all->leave > 0 || all->guests > 0);
}

typedef struct parting {
    weir_trainer *t;
    int *stay, count;
} parting;

static weir_err hand_over_job(void *arg)
{
    const parting *p = arg;

    return p->t->exchange->hand_over(p->t->exchanger, p->stay, p->count);
}

/* All members are there: what those who leave hold back goes to the others. */
static weir_err hand_over(weir_trainer *t, bool leave)
{
    const weir_group *g = &t->mesh.all;
    uint64_t *leaves = calloc((size_t)g->size, sizeof *leaves);
    parting p = {t, calloc((size_t)g->size, sizeof *p.stay), 0};
    weir_err err = leaves && p.stay ? WEIR_OK : weir_fail_nomem((size_t)g->size * sizeof *leaves);

    t->elastic->leaves = leave;
    if (!err)
        err = weir_trainer_gather(t, t->elastic->leaves, leaves);
    for (int i = 0; !err && i < g->size; i++)
        if (!leaves[i])
            p.stay[p.count++] = g->member[i];
    if (!err && !p.count) /* all of them: that is no leaving */
        t->elastic->leaves = false, t->stopped = weir_stop_here(t);
    else if (!err && p.count < g->size && t->exchange->hand_over)
        err = weir_line_call(t->line, hand_over_job, &p);
    if (!err)
        WEIR_WITNESS(t, WEIR_SEEN_HAND_OVER, NULL);
    free(leaves);
    free(p.stay);
    return err;
}

weir_err weir_elastic_change(weir_trainer *t, bool leaves, weir_change *change)
{
    double begun = weir_now(t->rt);
    weir_err err;

    t->change = false;
    WEIR_TRY(weir_trainer_settle(t));
    WEIR_TRY(hand_over(t, leaves));
    if (t->stopped)
        return WEIR_OK;
    err = agree_and_follow(t, change);
    change->seconds += weir_now(t->rt) - begun;
    return err;
}

weir_err weir_elastic_invite(weir_trainer *t, void *welcome, size_t n)
{
    if (!t->elastic || !t->rank_info->guests)
        return free(welcome), WEIR_OK;
    free(t->elastic->welcome);
    t->elastic->welcome = welcome;
    t->elastic->welcome_bytes = n;
    return weir_line_call(t->line, invite_job, t);
}

/* ---- coming ---- */

typedef struct coming {
    weir_trainer *t;
    weir_members list;
} coming;

static weir_err join_job(void *arg)
{
    coming *c = arg;
    weir_trainer *t = c->t;

    WEIR_TRY(weir_net_join(t->net, t->arena, &c->list));
    return weir_membership_open(t->net, t->elastic->most, &c->list, &t->elastic->membership);
}

int weir_elastic_most(const weir_trainer *t) { return t->elastic->most; }

weir_err weir_elastic_join(weir_trainer *t, int most, weir_change *change)
{
    double begun = weir_now(t->rt);
    coming c = {.t = t};
    weir_err err;

    if (!(t->elastic = calloc(1, sizeof *t->elastic)))
        return weir_fail_nomem(sizeof *t->elastic);
    t->elastic->fresh = true;
    t->elastic->most = most;
    WEIR_TRY(weir_line_call(t->line, join_job, &c));
    t->elastic->list = change->list = &c.list;
    t->elastic->size = c.list.count;
    err = follow(t, 0);
    if (err && weir_elastic_can(t, err))
        err = agree_and_follow(t, change);
    change->seconds += weir_now(t->rt) - begun;
    if (t->elastic->list == &c.list) /* it lies in the arena; its head was ours */
        t->elastic->list = change->list = weir_members_keep(&c.list, t->arena);
    return err;
}
