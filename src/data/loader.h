/* loader.h - the batches of a run, in order, prepared ahead by a task of their own.
 *
 * Which samples come next is a pure function of (seed, cursor): the first ones not yet used of the
 * epoch's shuffle, as many as a batch or as are left; or, of data in streams, the next window of
 * every stream. So a run may go on with another batch in the middle of an epoch, and every sample
 * of the epoch counts once. Rank r of p takes piece r of p of them (pieces differ by at most one
 * sample and may be empty), cut again into micro-batches. */
#ifndef WEIR_DATA_LOADER_H
#define WEIR_DATA_LOADER_H
#include "core/task.h"
#include "data/data.h"

typedef struct weir_sample_plan {
    uint64_t seed, count; /* samples of the training part */
    uint64_t batch;       /* over all workers */
    /* of the training part: as many as the batch, or 0 where samples stand alone */
    uint64_t streams;
    int rank, size, micro; /* micro-batches a step */
} weir_sample_plan;
/* the others take only what this lets through */
weir_err weir_sample_plan_check(const weir_sample_plan *);
uint64_t weir_sample_plan_epoch_steps(const weir_sample_plan *);

/* How far a run has come in its data. An epoch keeps the samples that it began with, so that more
 * of them (a resumed run's) count from the next one on. */
typedef struct weir_cursor {
    uint64_t epoch; /* that has begun: so many are over */
    uint64_t used;  /* samples of it; below rows */
    uint64_t rows;  /* samples that it has; at most the plan's count */
} weir_cursor;
/* Where a run is after `step` steps of this plan. */
weir_cursor weir_plan_at(const weir_sample_plan *, uint64_t step);
/* Past the samples of the step at the cursor. */
void weir_plan_advance(const weir_sample_plan *, weir_cursor *);
/* The last step of the epoch that has begun. */
weir_cursor weir_plan_last(const weir_sample_plan *, weir_cursor);
/* The samples done, in steps of this plan: the inverse of weir_plan_at, and between whole numbers
 * where some were made with another batch. */
double weir_plan_time(const weir_sample_plan *, weir_cursor);

uint64_t weir_sample_plan_samples(const weir_sample_plan *, weir_cursor); /* of the whole step */
/* This rank's micro-batch m of the step: its first place among the step's samples, and how many. */
void weir_sample_plan_slice(const weir_sample_plan *, weir_cursor, int m, uint64_t *first, int *n);
/* the largest micro-batch this rank meets */
int weir_sample_plan_room(const weir_sample_plan *);
/* Which sample of the part stands at a place of the step's samples. */
uint64_t weir_sample_plan_index(const weir_sample_plan *, weir_cursor, uint64_t place);

typedef struct weir_loader weir_loader;
/* Where the batches begin: at which samples, and the number of the step that is made of them. */
typedef struct weir_loader_from {
    weir_cursor at;
    uint64_t step;
} weir_loader_from;
/* Keeps `ahead` batches ready. The data stays open longer than the loader. */
weir_err weir_loader_open(weir_rt *, const weir_data_use *, const weir_sample_plan *,
                          weir_loader_from, int ahead, weir_loader **);
/* The next micro-batch, in order; n may be 0. Valid until the next call. An error of the data's
 * comes in its place, and stays. */
weir_err weir_loader_next(weir_loader *, const weir_data_batch **);
void weir_loader_close(weir_loader *); /* NULL is allowed */
#endif
