/* elastic.h - a run goes on when members are lost, leave or come.
 *
 * A lost member ends the generation, not the run. Those that are left come to rest between two
 * steps, agree on who goes on and from which step (net/membership.h), and go on: one that is a step
 * behind takes the state of one that is not, and what it had sent in that step counts; groups are
 * made anew, samples are dealt anew, and the step that was broken off is repeated. Whatever breaks
 * off while this is done begins it again.
 *
 * What is lost: what the lost member held back, and the carried state of its streams, which begins
 * at zero. Nobody else loses anything, and every sample of an epoch counts once.
 *
 * Where replicas drift (exchange.h) members may be several steps apart, and none has what all have
 * given. The list's source gets what it lacks (the exchange's `recover`), all others take its
 * state, and the run goes back to the first step that lacks something: samples count at least once,
 * and those that may count again are counted. What is lost is also what the lost member had on its
 * way. */
#ifndef WEIR_TRAIN_ELASTIC_H
#define WEIR_TRAIN_ELASTIC_H
#include "net/member_message.h"
#include "train/trainer.h"

/* What has become of the run since it began, the same on all members. */
typedef struct weir_elastic_count {
    uint64_t generations, joins, losses, left;
    uint64_t repeated_samples, lost_streams;
    double lost_residual; /* the norm of what lost members held back, as if all held as much */
} weir_elastic_count;

/* A change of members, for the log. It may take several lists, one after the other broken off by
 * another loss: each adds to what is not in the log yet. It begins as {0}. */
typedef struct weir_change {
    const weir_members *list; /* the last; until the next one */
    int lost, joined, went;   /* members: died or were given up; came; left by wish */
    bool left;                /* this rank is not in it, by its own wish: nothing more to do */
    uint64_t repeated;        /* samples that count again, at most: those of steps made again */
    double seconds;           /* from the loss, or the wish, to the first step that can be made */
    weir_fault fault;         /* what began it; code WEIR_OK: a wish */
} weir_change;

/* Both as one; `before` came first. */
void weir_change_add(weir_change *, const weir_change *before);

/* Once all have met: from now on this rank takes part in agreeing. Where the world or the exchange
 * cannot, or the user does not want it, a loss ends the run. */
weir_err weir_elastic_open(weir_trainer *);
void weir_elastic_close(weir_trainer *);
weir_elastic_count weir_elastic_counted(const weir_trainer *);
/* Is this an error after which the run can go on? */
bool weir_elastic_can(const weir_trainer *, weir_err);
/* The others have gone on without this one, or it has lost them and they may be going on. */
bool weir_elastic_apart(const weir_trainer *);
/* After such an error: on return the step that was broken off can be repeated by the members that
 * there are now. WEIR_STALE: the others have gone on without this one; WEIR_LOST: too few are
 * left. */
weir_err weir_elastic_go_on(weir_trainer *, weir_change *);

/* A member that was told to stop, and is not the only one, goes on for a second: if all were told
 * by then, the run stops. Else it wishes to leave, and says so among the notes of a step; so does
 * one at whose door somebody waits to join. Then all change groups between two steps. */
bool weir_elastic_leaves(weir_trainer *);
bool weir_elastic_invites(const weir_trainer *); /* one waits, and there is room for it */
void weir_elastic_heed(weir_trainer *, const weir_noted *);
/* On all members, where t->change says so. Those who leave hand over what they hold back. */
weir_err weir_elastic_change(weir_trainer *, bool leaves, weir_change *);
/* From now on guests are told these bytes, which are malloc'ed and are the trainer's from here. */
weir_err weir_elastic_invite(weir_trainer *, void *welcome, size_t n);
/* On one that is no member yet, with a trainer that is open and alone: joins, and has the state of
 * the others. */
weir_err weir_elastic_join(weir_trainer *, int most, weir_change *);
/* Members that there may be: --max-workers, or as many as the run began with. */
int weir_elastic_most(const weir_trainer *);
#endif
