/* profile.h - what a step costs one worker in seconds of computing, piece by piece. A real run
 * takes it down and writes it to a file; a simulated one reads it and spends it, so that buckets
 * leave when they would have left. */
#ifndef WEIR_TRAIN_PROFILE_H
#define WEIR_TRAIN_PROFILE_H
#include "core/arena.h"
#include "core/err.h"

typedef struct weir_profile {
    int stages; /* of backward: one for each number of weir_tensor.ready */
    /* forward (with waiting for data), each stage of backward, what is left of it, update; summed
     * over ... */
    double *second;
    double steps; /* ... so many steps */
    double mark;  /* when the running piece began */
} weir_profile;

/* then, from WEIR_COST_BACK + stages on: the rest of backward, update */
enum { WEIR_COST_FORWARD = 0, WEIR_COST_BACK = 1 };
static inline int weir_profile_pieces(const weir_profile *p) { return p->stages + 3; }
static inline int weir_cost_rest(const weir_profile *p) { return WEIR_COST_BACK + p->stages; }
static inline int weir_cost_update(const weir_profile *p) { return WEIR_COST_BACK + p->stages + 1; }

weir_err weir_profile_new(int stages, weir_arena *, weir_profile **);
/* The piece that has been running since the last mark ends now. */
static inline void weir_profile_mark(weir_profile *p, int piece, double now)
{
    p->second[piece] += now - p->mark;
    p->mark = now;
}
static inline double weir_profile_cost(const weir_profile *p, int piece)
{
    return p->steps > 0 ? p->second[piece] / p->steps : 0;
}
void weir_profile_clear(weir_profile *);
weir_err weir_profile_save(const weir_profile *, const char *path);
/* WEIR_INVALID: damaged; WEIR_MISFIT: of a model with another number of stages. */
weir_err weir_profile_load(const char *path, int stages, weir_arena *, weir_profile **);
#endif
