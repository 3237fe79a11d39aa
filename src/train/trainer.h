/* trainer.h - one rank of a run: everything a step needs, opened once. Its verbs run on the compute
 * thread. */
#ifndef WEIR_TRAIN_TRAINER_H
#define WEIR_TRAIN_TRAINER_H
#include "data/loader.h"
#include "exchange/exchange.h"
#include "net/mesh.h"
#include "nn/model.h"
#include "optim/rate.h"
#include "train/agree.h"
#include "train/comm.h"
#include "train/journal.h"
#include "train/notes.h"
#include "train/profile.h"
#include "train/refuse.h"
#include "train/warn.h"
#include "train/witness.h"
#include <stdatomic.h>

/* What a step came to, the same on all ranks but for the times. */
typedef struct weir_step_report {
    uint64_t step, samples; /* step counts from 1 */
    double epoch, loss, rate, norm;
    /* codec and wire: on the comm task, while this rank computes or waits */
    double seconds, forward_s, compute_s, wait_s, codec_s, wire_s;
    double density; /* of what goes through sparse codecs, the portion that this rank sent */
    /* the norm of what this rank holds back; the largest of it in thresholds, not a number where
     * there are none */
    double held, over;
    int apart;             /* by how many steps the last rank is behind this one */
    double sent, received; /* bytes that all ranks gave to the wire for its exchange */
} weir_step_report;

/* The step that is under way: what is fixed when it begins, and how far it has come. */
typedef struct weir_step {
    uint64_t samples;   /* of all workers */
    double divisor;     /* what its loss is a mean of: samples, or tokens */
    weir_commit commit; /* when, rate, clip; then what came of it */
    weir_score score;   /* of this worker's samples */
    int next_lane;      /* the first that has not left */
    weir_err posting;   /* a bucket could not be handed over */
    double begun, forwarded, computed;
    uint64_t sent, received; /* bytes of this rank; written by the comm task */
} weir_step;

/* Bytes of this rank for the exchange of the committed steps. */
typedef struct weir_traffic {
    uint64_t sent, received;
    uint64_t warm_sent, warm_steps;    /* of those after a codec's warm-up */
    uint64_t last_sent, last_received; /* of the last one */
} weir_traffic;

/* Where a run was before a step. */
typedef struct weir_place {
    uint64_t step, samples;
    weir_cursor cursor;
} weir_place;

typedef struct weir_trainer {
    /* ---- given by the caller ---- */
    const weir_settings *set;
    const weir_rank_info *rank_info;
    atomic_int *stop; /* a signal that came, 0: none. NULL: nobody sends any */
    weir_comm *comm;
    bool steady;                 /* a codec's warm-up counts as over: benchmarks */
    const weir_witness *witness; /* NULL: nobody watches */
    bool looks;                  /* reports tell what is held back, which costs a pass over it */
    /* ---- the world ---- */
    weir_line *line; /* of the comm task: where this trainer's jobs are done */
    weir_net *net;
    weir_rt *rt;
    bool dry; /* sizes only: there are no parameters, no gradients and no batches */
    weir_arena *arena;
    weir_facts facts; /* of all settings, by which they were judged */
    weir_mesh mesh;   /* who is who; its arena has what belongs to these groups */
    weir_coll_use coll;
    /* ---- data and model ---- */
    weir_model_file model_file; /* what the model is read from: run_model.h */
    weir_data_use data;
    const struct weir_resumed *resumed; /* the checkpoint to go on from (resume.c); NULL: none */
    /* what a run's data taught it: one that goes on or is evaluated. NULL: today's data teach */
    const char *learnt, *learnt_at; /* and the checkpoint that says so */
    bool test_only;                 /* with it: no training part is needed */
    bool own_data;                  /* and nobody asked for other data than the run's */
    const char *lessons;            /* what checkpoints say; NULL: there will be none here */
    weir_sample_plan plan;
    weir_loader *loader;
    weir_model *model;
    double per_sample; /* what a loss is a mean of: tokens a sample, or 1 */
    int threads, eval_batch;
    int stages;           /* of backward: one for each number that its `ready` calls out */
    size_t params, small; /* small: tensors below belong to the dense tail */
    float *param, *grad;  /* grad: WEIR_EXCHANGE_NOTES more */
    double *exact;        /* the same in double, where sums are taken so; else NULL */
    weir_data_batch eval_room;
    double *still_sum; /* room to average running statistics */
    /* ---- the exchange ---- */
    weir_lane *lane;
    int lanes;
    const weir_exchange *exchange;
    void *exchanger;
    weir_replica replica;         /* what is compared every now and then */
    struct weir_elastic *elastic; /* elastic.h; NULL: a loss ends the run */
    struct weir_saver *saver;     /* saver.h; NULL: nothing was saved yet */
    /* ---- how far it has come ---- */
    weir_rate_use rate;
    uint64_t epoch_steps, steps; /* of an epoch; of the whole run */
    uint64_t step, samples;      /* committed so far; progress.h */
    weir_cursor cursor;          /* and where in the data that is */
    weir_place *place;           /* the last ones it may have to go back to (progress.c) */
    int places;
    uint64_t settled; /* the step at which replicas were last made one */
    int stopped;      /* the signal that all ranks agreed to stop for */
    bool change;      /* some member wishes to leave, or somebody to join */
    weir_step now;
    /* ---- what is told of it ---- */
    weir_traffic traffic;
    /* of the last step, without the bytes, which the next one brings; its step is 0: there is
     * none */
    weir_step_report pending;
    weir_step_report flushed; /* the last that was handed out */
    /* what steps cost: taken down (in a real world) or spent (in a simulated one). NULL: neither */
    weir_profile *profile;
    weir_warned warned; /* before there was a journal */
} weir_trainer;

/* Finds out who is who: net and mesh. set, rank_info, comm, stop are filled in by the caller; close
 * in any case. */
weir_err weir_trainer_enter(weir_trainer *);
/* Opens data, model, exchange. */
weir_err weir_trainer_open(weir_trainer *);
void weir_trainer_close(weir_trainer *);
/* Begins at t->cursor: opens the loader there. */
weir_err weir_trainer_begin(weir_trainer *);
/* One step, a transaction: an error leaves parameters, optimiser and layer state as they were.
 * *whole is the report of the step before, if there is one that was not handed out (else its step
 * is 0). So reports come whole and in order; the last one is fetched by weir_trainer_flush at the
 * price of a message, on all ranks. */
weir_err weir_trainer_step(weir_trainer *, weir_step_report *whole);
weir_err weir_trainer_flush(weir_trainer *, weir_step_report *whole);
/* After a step that failed: takes back what is left of it, so that the next one repeats it. All
 * ranks that go on do so, and all have failed at the same collective: ranks number them as they go,
 * and those that stopped at different ones would wait for, or take, each other's wrong messages.
 * Where one rank failed by itself a new generation of groups comes first (net/mesh.h), whose
 * numbers begin anew. */
weir_err weir_trainer_rewind(weir_trainer *);
/* Of the last step whose sums have come: under an exchange that drifts some steps back, until it is
 * settled. */
double weir_trainer_loss(const weir_trainer *);
/* The test part, shared by the workers; the same sums on all. Told to stop (t->stopped), it ends
 * early and has no score. */
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
double weir_report_peak_rss_mib(void);
uint64_t weir_trainer_hash(const weir_trainer *);
/* How many different parameter vectors the ranks hold: 1 if all agree. */
weir_err weir_trainer_replicas(weir_trainer *, int *replicas);
/* Fails where they do not, with the rank and the tensor. */
weir_err weir_trainer_check(weir_trainer *);
/* Everything that continues a run and is not in the parameters, for checkpoints. */
weir_err weir_trainer_state(void *trainer, weir_io *);
/* The metric of a score: its name by the data, its value. */
const char *weir_trainer_metric(const weir_trainer *);
double weir_trainer_value(const weir_trainer *, const weir_score *);

/* step.c's: the report of the step that was just committed becomes the pending one; the pending one
 * is handed out with its bytes. */
void weir_step_report_make(weir_trainer *);
void weir_step_report_take(weir_trainer *, double sent, double received, weir_step_report *whole);
#endif
