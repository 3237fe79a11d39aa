/* storm_inside.h - between storm_run.c, storm_watch.c, storm_sums.c and storm_check.c: what a
 * witness keeps of a storm. */
#ifndef WEIR_TRAIN_STORM_INSIDE_H
#define WEIR_TRAIN_STORM_INSIDE_H
#include "net/member_message.h"
#include "train/run.h"
#include "train/storm.h"
#include "train/trainer.h"

enum { WEIR_STORM_NODES = 32, WEIR_STORM_BUCKET = 128 }; /* bytes */

/* What is equal on all that have come as far. */
typedef struct storm_state {
    uint64_t step, samples, hash; /* hash: of the parameters */
    weir_cursor cursor;
} storm_state;

/* A generation, as the first of its members saw it that began in it. */
typedef struct storm_generation {
    int number, count;
    int rank[WEIR_STORM_NODES], node[WEIR_STORM_NODES]; /* of its members; node -1: not seen here */
    storm_state begin;
    double at;     /* when the first began */
    uint32_t came; /* nodes that have begun in it */
    /* those who leave have handed over what they hold back: so many members have seen it, and what
     * all of them held before and after */
    int handed;
    double *before, *after, *size;
} storm_generation;

/* A step of a generation, from the first gradient on. */
typedef struct storm_attempt {
    int generation;
    uint64_t step;      /* that it makes */
    weir_cursor cursor; /* before it */
    storm_state end;
    uint32_t committed; /* by these nodes */
    uint32_t stepped;   /* these have its state: committed, or taken from another */
    int left;           /* lanes that have left, of all members together */
    double loss;
    /* by parameter: what was given and held back before, all absolute values of that, what is held
     * back after, the sum that moved the weights */
    double *in, *size, *out, *sum;
    uint64_t *index; /* of the samples that went forward for it */
    int indices;
} storm_attempt;

/* One process. */
typedef struct storm_node {
    bool seen, known;                           /* known: `held` is what it holds back */
    int rank, generation;                       /* the last that it has begun in */
    int agreed[WEIR_STORM_NODES], agreed_count; /* ranks of the list that it agreed on last */
    storm_state state;
    double *held, *size; /* size: of its parts, without signs */
    float *param;
    double moved;  /* when it was last seen to get on */
    double waited; /* the longest time without that */
    bool ended, left;
    weir_err err;
    int stopped;
    double ended_at;
    char why[300];
} storm_node;

/* Where replicas settle they are one. */
typedef struct storm_settled {
    int generation;
    uint64_t step, hash;
    double rate;
    uint32_t came; /* nodes that have settled */
    /* by parameter: its value, what all of them hold back, and that without signs */
    double *param, *held, *size;
} storm_settled;

/* A step as the log has it. */
typedef struct storm_line {
    uint64_t step;
    double loss;
} storm_line;

typedef struct storm_watch {
    const weir_storm *storm;
    weir_storm_result *result;
    weir_arena *arena;
    size_t params;
    int lanes;
    bool drifts; /* replicas do, between one settle and the next */
    weir_sample_plan plan;
    bool nomem;
    storm_node node[WEIR_STORM_NODES];
    storm_generation *generation; /* as they were first seen */
    int generations, generation_room;
    storm_attempt *attempt;
    int attempts, attempt_room;
    uint64_t *sample; /* by index: a hash of its content */
    uint64_t sample_count;
    storm_settled *settled;
    int settles, settled_room;
    storm_line *line; /* of the log */
    int lines, line_room;
} storm_watch;

/* The first one counts. */
void weir_storm_broken(storm_watch *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- storm_watch.c ---- */
void weir_storm_see(void *watch, weir_seen, const weir_trainer *, const void *thing);
void weir_storm_end(void *watch, weir_net *, const weir_seen_end *);
void weir_storm_event(void *watch, const char *json);
storm_generation *weir_storm_generation(storm_watch *, int number);
const storm_attempt *weir_storm_attempt(const storm_watch *, int generation, uint64_t step);
/* Each of its samples has gone into it, once. */
void weir_storm_check_samples(storm_watch *, const storm_attempt *);
bool weir_storm_member(const storm_generation *, int rank);

/* ---- storm_sums.c: what is given, moves weights, and is held back ---- */
/* A lane leaves; a step counts on this rank; a generation begins; what is held back has changed
 * hands. */
void weir_storm_sums_leave(storm_watch *, storm_attempt *, storm_node *, const weir_trainer *,
                           const weir_lane *);
void weir_storm_sums_commit(storm_watch *, storm_attempt *, storm_node *, const weir_trainer *,
                            bool first);
void weir_storm_sums_begin(storm_watch *, storm_node *, const weir_trainer *);
/* Replicas that drift have settled; last: at this step before, or NULL. */
void weir_storm_sums_settle(storm_watch *, storm_settled *, const storm_settled *last, storm_node *,
                            const weir_trainer *);
void weir_storm_sums_hand_over(storm_watch *, storm_generation *, storm_node *,
                               const weir_trainer *);

/* ---- storm_check.c: when all have ended ---- */
void weir_storm_check(storm_watch *);

/* ---- storm_saved.c: what a run leaves behind ---- */
weir_err weir_storm_check_saved(storm_watch *);

/* ---- storm_run.c ---- */
weir_err weir_storm_settings(const weir_storm *, weir_arena *, weir_settings *);
weir_err weir_storm_train(const weir_storm *, const weir_settings *, const weir_hooks *);
#endif
