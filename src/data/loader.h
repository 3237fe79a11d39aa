/* loader.h - the batches of a run, in order, prepared ahead by a task of their own.
 *
 * The samples of step s are a pure function of (seed, s): epoch e = s / steps an epoch, places [k
 * B, min((k+1) B, N)) of that epoch's shuffle; or, of data in streams, window k of every stream, in
 * order. Rank r of p takes piece r of p of them (pieces differ by at most one sample and may be
 * empty), cut again into micro-batches. */
#ifndef WEIR_DATA_LOADER_H
#define WEIR_DATA_LOADER_H
#include "core/task.h"
#include "data/data.h"

typedef struct weir_plan {
    uint64_t seed, count; /* samples of the training part */
    uint64_t batch;       /* over all workers */
    /* of the training part: as many as the batch, or 0 where samples stand alone */
    uint64_t streams;
    int rank, size, micro; /* micro-batches a step */
} weir_plan;
/* the others take only what this lets through */
weir_err weir_plan_check(const weir_plan *);
uint64_t weir_plan_epoch_steps(const weir_plan *);
uint64_t weir_plan_samples(const weir_plan *, uint64_t step); /* of the whole step */
/* This rank's micro-batch m of the step: its first place among the step's samples, and how many. */
void weir_plan_share(const weir_plan *, uint64_t step, int m, uint64_t *first, int *n);
/* the largest micro-batch this rank meets */
int weir_plan_room(const weir_plan *);
/* Which sample of the part stands at a place of the step's samples. */
uint64_t weir_plan_index(const weir_plan *, uint64_t step, uint64_t place);

typedef struct weir_loader weir_loader;
/* Batches from step `from` on. Keeps `ahead` of them ready. The data stays open longer than the
 * loader. */
weir_err weir_loader_open(weir_rt *, const weir_data_use *, const weir_plan *, uint64_t from,
                          int ahead, weir_loader **);
/* The next micro-batch, in order; n may be 0. Valid until the next call. An error of the data's
 * comes in its place, and stays. */
weir_err weir_loader_next(weir_loader *, const weir_batch **);
void weir_loader_close(weir_loader *); /* NULL is allowed */
#endif
