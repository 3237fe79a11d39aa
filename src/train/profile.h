/* profile.h - what a step costs one worker in seconds of computing, piece by piece. A real run
 * takes it down and writes it to a file; a simulated one reads it and spends it, so that buckets
 * leave when they would have left.
 *
 * Costs are of one model on inputs of one shape, with so many threads. What forward and backward
 * cost is taken to grow with the worker's samples, what the update costs is not. */
#ifndef WEIR_TRAIN_PROFILE_H
#define WEIR_TRAIN_PROFILE_H
#include "core/arena.h"
#include "net/net.h"

/* What is computed. */
typedef struct weir_workload {
    const char *model; /* as the user named it */
    char input[64];    /* the shape of a sample: "1x28x28" */
    size_t params;
    int stages;  /* of backward: one for each number of weir_tensor.ready */
    int threads; /* 0: as many as the file says */
} weir_workload;

typedef struct weir_profile {
    weir_net *net; /* whose time it is */
    weir_workload of;
    /* forward (with waiting for data), each stage of backward, what is left of it, update; summed
     * over ... */
    double *second;
    double steps, samples; /* ... so many steps, in which this worker had so many samples */
    double now;            /* samples of the step that is under way */
    double mark;           /* when the running piece began */
} weir_profile;

/* then, from WEIR_COST_BACK + stages on: the rest of backward, update */
enum { WEIR_COST_FORWARD = 0, WEIR_COST_BACK = 1 };
static inline int weir_profile_pieces(const weir_profile *p) { return p->of.stages + 3; }
static inline int weir_cost_rest(const weir_profile *p) { return WEIR_COST_BACK + p->of.stages; }
static inline int weir_cost_update(const weir_profile *p)
{
    return WEIR_COST_BACK + p->of.stages + 1;
}

weir_err weir_profile_new(weir_net *, const weir_workload *, weir_arena *, weir_profile **);
void weir_profile_clear(weir_profile *);
weir_err weir_profile_save(const weir_profile *, const char *path);
/* WEIR_INVALID: damaged; WEIR_MISFIT: of another model, other inputs or other threads. */
weir_err weir_profile_load(const char *path, weir_net *, const weir_workload *, weir_arena *,
                           weir_profile **);
/* Seconds of this piece in a step in which the worker has p->now samples. */
double weir_profile_cost(const weir_profile *, int piece);

/* ---- in a step; all take NULL ---- */
/* A step begins in which this worker has so many samples. */
void weir_profile_begin(weir_profile *, uint64_t samples);
/* A piece begins now: what went before was no computing, but waiting. */
void weir_profile_go_on(weir_profile *);
/* A piece is over: a real world takes down how long it took, a simulated one lets that time pass.
 * The next piece has begun. */
void weir_profile_over(weir_profile *, int piece);
/* The step counts. */
void weir_profile_commit(weir_profile *);
#endif
