/* exchange.h - from this rank's gradient to everybody's next parameters. Runs on the comm task; the
 * gradient arrives bucket by bucket while backward still runs.
 *
 * Laws. Sums, no means: backward divides by the samples of the whole step, exchanges only sum. A
 * step is a transaction: until the last bucket has been exchanged nothing changes that repeating
 * the step would need; parameters, optimiser state and residuals change together, in `finish`. A
 * step that meets an error before that leaves them all as they were.
 *
 * Groups may change a thousand times, so memory is of two kinds. What lasts as long as the run
 * (what a lane holds back, its momentum, its optimiser) lies in `arena`. What belongs to this
 * generation of groups (messages of members, stripes, what was measured) lies in `group_arena`,
 * which is freed when the groups go. They change in this order:
 *
 *   hand_over   if all members are there: what those who leave hold back goes to those who stay
 *   close       nothing is in flight; what is the worker's own leaves the generation's memory
 *   the caller frees the generation's memory, makes groups and collectives anew
 *   regroup     on those who stay, with a new group_arena; init on those who come
 *
 * Members that are lost hand nothing over, and may end a step anywhere in its middle. Those that go
 * on have agreed on a list, and on its source: one that has the newest state (net/membership.h).
 * Instead of hand_over there is then
 *
 *   recover     on all members of the list; then the source lacks nothing that others gave
 *   its state goes to those whose state is older, or not the same
 *   catch_up    on these: what counts of the step that was broken off is theirs no longer
 *
 * Laws. What was given to others and what is held back is conserved, but for what the lost ones
 * held and had on its way. Where all step together every sample counts once; where replicas drift
 * it counts at least once, as the run goes back to the first step that lacks something. Whatever of
 * this is broken off by another loss begins again, with another list, and these laws hold. */
#ifndef WEIR_EXCHANGE_EXCHANGE_H
#define WEIR_EXCHANGE_EXCHANGE_H
#include "coll/coll.h"
#include "exchange/lane.h"
#include "net/member_message.h"

/* Small sums that ride behind the last bucket of a step for nothing: loss, samples, wishes. The
 * owner of the numbers is train/. */
enum { WEIR_EXCHANGE_NOTES = 16 };

/* What an exchange is given, once for each generation of groups. */
typedef struct weir_exchange_env {
    weir_group *same, *all; /* holders of this part of the model; everybody */
    weir_coll_use *coll;
    weir_lane *lane;
    int lanes;
    weir_arena *arena, *group_arena; /* for life; until the groups change */
    /* Cuts a loop over the threads that computed the gradient, which wait while `finish` runs.
     * NULL: there are none. */
    void (*parallel_for)(void *self, int64_t n, void (*part)(void *arg, int64_t from, int64_t to),
                         void *arg);
    void *parallel_self;
    uint64_t seed;
    /* as every commit will say it: under a codec with a residual each worker clips what it adds */
    double clip;
} weir_exchange_env;

/* What a step's commit is given, and tells. */
typedef struct weir_commit {
    weir_when when;
    double rate, clip; /* clip <= 0: off */
    double norm;       /* out: of the summed gradient handed to the optimiser, before clipping */
    /* out: by how many steps the last member is behind this one, as far as this one has heard; 0
     * where all step together */
    int apart;
    /* in: false leaves everything as it was (a rehearsal: benchmarks of the wire) */
    bool keep;
} weir_commit;

/* What came of looking again at which codec is best (choose.h). */
typedef struct weir_choice weir_choice;

/* Members were lost: how those that are left come to one state. */
typedef struct weir_recovery {
    const weir_members *list; /* who goes on; list->source is the one whose state is taken */
    /* On the source. In: the step to come, both. Out: all that was to be given in steps before
     * `step` is in the parameters, and nothing of the steps from `untouched` on. */
    uint64_t step, untouched;
    bool moved; /* out, on all: something came to the source, whose parameters are other ones now */
} weir_recovery;

/* What the options of an exchange make of it: settings are judged by it (train/refuse.h). */
typedef struct weir_exchange_facts {
    bool levels;     /* machines sum as they are, and compress between them */
    int apart;       /* steps that two workers may be apart, and a loss may take back */
    const char *odd; /* its options contradict each other: how. NULL: they do not */
} weir_exchange_facts;

typedef struct weir_exchange {
    weir_plug plug;
    bool chooses; /* which codec each lane goes by, where that is left open */
    /* Replicas differ by what is on its way, between one settle and the next. Sums behind the last
     * lane are the same on all ranks all the same, but may be those of some steps before. With
     * other members it can go on if it can recover. */
    bool drifts;
    /* By its options alone: before init, or without. NULL: none of these. */
    void (*facts)(const void *self, weir_exchange_facts *);
    weir_err (*init)(void *self, const weir_exchange_env *);
    /* This lane's gradient leaves. Called in the same lane order on every rank, while backward may
     * still run. [blocks] */
    weir_err (*bucket)(void *self, weir_lane *, weir_when);
    /* All lanes have left: commits the step. On success the parameters are ready for the next
     * forward. A gradient that is not finite is WEIR_NAN, names the tensor, and nothing of it
     * is applied; where replicas drift, what came of earlier steps may have been. [blocks] */
    weir_err (*finish)(void *self, weir_commit *);
    /* A server's loop, as a fibre of its own. NULL: none. [blocks] */
    weir_err (*serve)(void *self);
    /* Drains, and leaves in the parameters what evaluation and checkpoints use, equal on all ranks,
     * and behind the last lane the sums of the last step. when: of the step to come. Also called
     * before the first step, where there is nothing to drain. NULL: nothing to do. [blocks] */
    weir_err (*settle)(void *self, weir_when);
    /* The groups are going to change, and all of their members are there: called on each of them
     * with the ranks that stay, the same on all. What the others hold back goes to those. NULL:
     * nothing is held back. [blocks] */
    weir_err (*hand_over)(void *self, const int *stay, int count);
    /* Members were lost: called on each member of the list before their groups are made, and talks
     * to them by messages of no generation. On the source: what others have given and it lacks
     * comes here. From then on, and on others from catch_up on, the state is one of the list's
     * generation. Drops what the source had begun of the step to come. NULL: the newest state
     * lacks nothing. [blocks] */
    weir_err (*recover)(void *self, weir_recovery *);
    /* The state of the list's source has come: parameters, and all that is equal on all workers. Of
     * the step that met its end here what the source has of it was given, and what is held back is
     * what it would be after that; the rest never left. Without `recover` it is called only where
     * the source has all of that step. Before close. NULL: nothing is held back, or no step is ever
     * broken off. */
    void (*catch_up)(void *self);
    /* The groups have changed: from now on these. What a lost member held back is lost. Nothing of
     * the last generation's memory is touched; gradients may lie elsewhere than they did. NULL:
     * cannot. [blocks] */
    weir_err (*regroup)(void *self, const weir_exchange_env *);
    weir_err (*state)(void *self, weir_io *); /* beyond the lanes' own. NULL: none */
    /* Between steps: the last choice of codecs, once; NULL: none since it was asked for. *trying:
     * others are being tried now. NULL: never chooses. */
    const weir_choice *(*choice)(void *self, bool *trying);
    /* The memory of this generation goes: nothing of it is in flight any more, and what the worker
     * holds back there (as owner of a stripe) waits with the rest of what it holds back. On the
     * comm task, after errors too; harmless twice. NULL: there is nothing of the kind. */
    void (*close)(void *self);
} weir_exchange;

#define X(name) extern const weir_exchange weir_exchange_##name;
#include "exchange/list.h"
#undef X
extern weir_plugs weir_exchanges;
#endif
