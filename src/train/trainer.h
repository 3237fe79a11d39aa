/* trainer.h - one rank of a run: everything a step needs, opened once. Its verbs run on the compute
 * thread. */
#ifndef WEIR_TRAIN_TRAINER_H
#define WEIR_TRAIN_TRAINER_H
#include "data/loader.h"
#include "exchange/exchange.h"
#include "nn/model.h"
#include "optim/rate.h"
#include "train/agree.h"
#include "train/comm.h"
#include "train/journal.h"
#include "train/profile.h"
#include "train/settings.h"
#include <stdatomic.h>

/* What rides behind the last bucket: summed over the workers with the step. Bytes go as three
 * floats of 14 bits each, exact for up to 1,024 workers; they are of the step before, as those of a
 * step are known only when it is over. */
typedef enum {
    /* how many workers were told to stop, by which signal */
    WEIR_NOTE_LOSS,
    WEIR_NOTE_INT,
    WEIR_NOTE_TERM,
    WEIR_NOTE_HUP,
    WEIR_NOTE_SENT,
    WEIR_NOTE_RECEIVED = WEIR_NOTE_SENT + 3
} weir_note;

/* What a step came to, the same on all ranks but for the times. */
typedef struct weir_step_report {
    uint64_t step, samples; /* step counts from 1 */
    double epoch, loss, rate, norm;
    /* codec and wire: on the comm task, while this rank computes or waits */
    double seconds, forward_s, compute_s, wait_s, codec_s, wire_s;
    double density; /* of what goes through sparse codecs, the share that this rank sent */
    /* the norm of what this rank holds back; the largest of it in thresholds, not a number where
     * there are none */
    double held, over;
    int apart; /* by how many steps the last rank is behind this one */
    /* bytes that all ranks gave to the wire for its exchange: known when the next step's notes are
     * in */
    double sent, received;
    bool whole; /* they are known */
} weir_step_report;

typedef struct weir_trainer {
    const weir_settings *set;
    const weir_place *place;
    atomic_int *stop; /* a signal that came, 0: none. NULL: nobody sends any */
    weir_comm *comm;
    weir_net *net;
    weir_rt *rt;
    weir_arena *arena;
    weir_group all;
    weir_coll_use coll;
    weir_data_use data;
    weir_plan plan;
    weir_loader *loader;
    weir_model *model;
    double per_sample; /* what a loss is a mean of: tokens a sample, or 1 */
    int threads, eval_batch;
    int stages;  /* of backward: one for each number that its `ready` calls out */
    bool steady; /* a codec's warm-up counts as over: benchmarks */
    bool dry;    /* sizes only: there are no parameters, no gradients and no batches */
    weir_batch eval_room;
    double *still_sum;    /* room to average running statistics */
    size_t params, small; /* small: tensors below belong to the dense tail */
    float *param, *grad;  /* grad: WEIR_NOTES more */
    double *exact;        /* the same in double, where sums are taken so; else NULL */
    weir_lane *lane;
    int lanes, next_lane; /* next_lane: the first that has not left in this step */
    double forwarded;     /* when its forward was over */
    const weir_exchange *exchange;
    void *exchanger;
    weir_rate_use rate;
    uint64_t epoch_steps, steps; /* of an epoch, of the whole run */
    uint64_t step, samples;      /* committed so far */
    weir_commit commit;
    int stopped;                    /* the signal that all ranks agreed to stop for */
    uint64_t sent, received;        /* bytes of this rank for the exchange of the committed steps */
    uint64_t warm_sent, warm_steps; /* of those after a codec's warm-up */
    uint64_t step_sent, step_received; /* of the last step's; written by the comm task */
    weir_err posting;                  /* a bucket could not be handed over */
    /* what steps cost: taken down (in a real world) or spent (in a simulated one). NULL: neither */
    weir_profile *profile;
    weir_replica replica; /* what is compared every now and then */
    /* the step before, as reported: weir_trainer_step makes it whole */
    weir_step_report last;
} weir_trainer;

/* Opens data, model, exchange. set, place, comm, stop are filled in by the caller; close in any
 * case. */
weir_err weir_trainer_open(weir_trainer *);
void weir_trainer_close(weir_trainer *);
/* Begins at t->step: opens the loader there. */
weir_err weir_trainer_begin(weir_trainer *);
/* One step, a transaction: an error leaves parameters, optimiser and layer state as they were.
 * t->last is whole then, if there was a step before; *report lacks its bytes, which
 * weir_trainer_flush fetches at the price of a message, on all ranks. */
weir_err weir_trainer_step(weir_trainer *, weir_step_report *);
weir_err weir_trainer_flush(weir_trainer *, weir_step_report *);
/* Of the last step whose sums have come: under an exchange that drifts some steps back, until it is
 * settled. */
double weir_trainer_loss(weir_trainer *);
/* The test part, shared by the workers; the same sums on all. */
weir_err weir_trainer_evaluate(weir_trainer *, weir_score *);
/* Leaves in the parameters what evaluation and checkpoints use. */
weir_err weir_trainer_settle(weir_trainer *);
/* Sums doubles over the ranks; gathers one number of each. */
weir_err weir_trainer_sum(weir_trainer *, double *, int n);
/* A pass that ends when a peer is lost: what is computed then is of no use. */
void weir_trainer_heed(const weir_trainer *, weir_pass *);
/* What such a pass, or any other, ended with; where it was WEIR_LOST, in words that say who. */
weir_err weir_trainer_lost(weir_trainer *, weir_err);
weir_err weir_trainer_gather(weir_trainer *, uint64_t mine, uint64_t *all);
/* Fills in what is held back, now: for steps that are logged. */
void weir_trainer_look(const weir_trainer *, weir_step_report *);
double weir_peak_rss_mib(void);
uint64_t weir_trainer_hash(const weir_trainer *);
/* How many different parameter vectors the ranks hold: 1 if all agree. */
weir_err weir_trainer_replicas(weir_trainer *, int *replicas);
/* Fails where they do not, with the rank and the tensor. */
weir_err weir_trainer_check(weir_trainer *);
/* Everything that continues a run and is not in the parameters, for checkpoints. */
weir_err weir_trainer_state(void *trainer, weir_io *);
/* of it, what evaluation needs: the layers' state */
weir_err weir_trainer_layers(void *trainer, weir_io *);
/* The metric of a score: its name by the data, its value. */
const char *weir_trainer_metric(const weir_trainer *);
double weir_trainer_value(const weir_trainer *, const weir_score *);
#endif
