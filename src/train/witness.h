/* witness.h - somebody who is told what every rank of a run does, as it does it, and changes
 * nothing: checks of whole runs (storm.h). Without one it costs a look at a pointer. */
#ifndef WEIR_TRAIN_WITNESS_H
#define WEIR_TRAIN_WITNESS_H
#include "net/net.h"

struct weir_trainer;

typedef enum {
    WEIR_SEEN_BEGUN,  /* in a generation: all members have the same state, and step from here on */
    WEIR_SEEN_AGREED, /* thing: a weir_members, in which nobody has begun yet */
    WEIR_SEEN_BATCH,  /* thing: a weir_data_batch that goes forward */
    WEIR_SEEN_LEAVES, /* thing: a weir_lane with this rank's own gradient, on the comm task */
    WEIR_SEEN_COMMIT, /* a step is committed; the sums still lie in the gradient's memory */
    WEIR_SEEN_CATCH_UP,  /* the same, made up for by the state of another */
    WEIR_SEEN_HAND_OVER, /* what those who leave hold back is others' now */
    WEIR_SEEN_SETTLED,   /* replicas are one, as evaluation and checkpoints use them */
} weir_seen;

/* How a rank ended. */
typedef struct weir_seen_end {
    weir_err err;
    const char *why;
    bool left;   /* by wish */
    int stopped; /* the signal that all stopped for */
} weir_seen_end;

typedef struct weir_witness {
    void (*see)(void *arg, weir_seen, const struct weir_trainer *, const void *thing);
    void (*end)(void *arg, weir_net *, const weir_seen_end *);
    void *arg;
    size_t bucket; /* bytes of a bucket, so that a small model has several; 0: as always */
} weir_witness;

#define WEIR_WITNESS(t, what, thing)                                    \
    do {                                                                \
        if ((t)->witness)                                               \
            (t)->witness->see((t)->witness->arg, (what), (t), (thing)); \
    } while (0)
#endif
