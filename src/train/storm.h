/* storm.h - whole runs in the simulated world under faults, held to what must be true of every run.
 *
 * A seed stands for a storm: a small run (workers, exchange, codec, collective, optimiser, links)
 * and faults that happen to it: kills, pauses, cuts that heal or do not, others that join, some
 * that leave, packets that are late, dropped, damaged or doubled. Faults come in clusters, as what
 * breaks while others agree on the last one is where mistakes hide. The same seed is the same storm
 * to the last bit. Variants are drawn from the lists of their axes, so a new one is in the next
 * storm; what is refused (refuse.h) is drawn anew.
 *
 * What is checked, of all ranks' doings as a witness sees them (witness.h):
 *
 *   one history   a generation has one list of members; its members commit the same steps with the
 *                 same bits, samples and hashes; each generation begins with the newest state that
 *                 any of its members has committed; whatever somebody else had beyond that is one
 *                 step at most, and no member's
 *   quorum        no generation is made while too few of the last one live
 *   sums          what moves the weights is the sum of what the members of the generation gave to
 *                 this step and of nothing else, but for what is held back: so no message of
 *                 another generation counts, and none is lost
 *   held back     what a rank holds back between two steps changes by what others hand over alone;
 *                 in sum nothing is lost but with a rank that is lost
 *   samples       a committed step is made of the samples that are its own, each once, by their
 *                 content; every sample of an epoch counts once
 *   waiting       nobody waits longer than time-outs allow
 *   ending        ranks end well where a quorum lives; who does not says why, and has a reason
 *   saved         whatever happened: if anything was saved, the newest checkpoint is whole, its
 *                 weights are of the one history, and the run goes on from it to its end
 *   log           its steps are as they were committed in the one history; in order, but where one
 *                 who wrote was stopped for long; one may stand there twice, where who wrote is
 *                 lost
 *
 * Where replicas drift (exchange.h) they are the same where they settle, and steps are complete
 * where the next generation begins; one who wrote and was stopped for long may add steps to the log
 * that a loss has taken back. An exchange that cannot go on when workers are lost, and a run that
 * was told not to (drawn now and then), ends with a loss: its waits, its ends and what it saved are
 * held to the same. */
#ifndef WEIR_TRAIN_STORM_H
#define WEIR_TRAIN_STORM_H
#include "net/net.h"

typedef enum {
    WEIR_STORM_KILL,
    WEIR_STORM_PAUSE,
    WEIR_STORM_CUT,
    WEIR_STORM_JOIN,
    WEIR_STORM_LEAVE,
    WEIR_STORM_DELAY,
    WEIR_STORM_DROP,
    WEIR_STORM_CORRUPT,
    WEIR_STORM_DUPLICATE,
    WEIR_STORM_KINDS
} weir_storm_kind;

/* One thing that goes wrong. */
typedef struct weir_storm_fault {
    weir_storm_kind kind;
    int a, b;       /* nodes: of whom; CUT: between whom */
    double at;      /* seconds */
    double lasts;   /* PAUSE, CUT: seconds; 0: for ever */
    double portion; /* DELAY and the rest: of the latency; of packets */
} weir_storm_fault;

enum { WEIR_STORM_FAULTS = 24, WEIR_STORM_TEXT = 160 };

/* What the user wants of it. */
typedef struct weir_storm_wish {
    const char *exchange, *codec, *coll; /* NULL: drawn */
    uint32_t without;                    /* bit i: fault i is left out */
    const char *room;                    /* a directory for what runs save */
} weir_storm_wish;

/* What a seed stands for. */
typedef struct weir_storm {
    uint64_t seed;
    int ranks, joins, most; /* at the start; that come; members that there may be */
    int steps, batch, samples, eval_every, check_every, save_every, machine, eager;
    bool rendezvous;
    bool elastic;  /* it goes on when ranks are lost */
    int variant;   /* which of the exchanges it is */
    char out[200]; /* its directory, while it runs; "": it saves nothing */
    double latency, detect, timeout, cost;
    char exchange[WEIR_STORM_TEXT], codec[WEIR_STORM_TEXT], coll[WEIR_STORM_TEXT],
        optim[WEIR_STORM_TEXT];
    weir_storm_fault fault[WEIR_STORM_FAULTS];
    int faults;
    uint32_t without;
} weir_storm;

/* What became of it. */
typedef struct weir_storm_result {
    int variant;    /* of the exchanges */
    bool early;     /* a rank was lost before the run had begun: it ended */
    bool refused;   /* its settings do not fit together: nothing was run */
    char what[400]; /* the first law that was broken, and how; "": none */
    weir_net_mishaps happened;
    uint64_t steps, generations, joined, left, lost; /* of its history; ranks */
    uint64_t behind;         /* ranks that took a step's state from another */
    uint64_t checked;        /* sums that were compared, element by element */
    uint64_t saved, resumed; /* checkpoints; runs that went on from one */
} weir_storm_result;

/* Options that have no meaning are refused. */
weir_err weir_storm_draw(uint64_t seed, const weir_storm_wish *, weir_storm *);
weir_err weir_storm_run(const weir_storm *, weir_storm_result *);
/* Fault i in words; the run as options of weir train. */
void weir_storm_say(const weir_storm_fault *, char *text, size_t room);
void weir_storm_options(const weir_storm *, char *text, size_t room);
#endif
