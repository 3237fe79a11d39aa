/* report.h - what is counted over a run, and the log's events (docs/REFERENCE.md names their keys).
 * All take a NULL journal. */
#ifndef WEIR_TRAIN_REPORT_H
#define WEIR_TRAIN_REPORT_H
#include "train/checkpoint.h"
#include "train/elastic.h"

/* Sums over the steps this process has made. */
typedef struct weir_tally {
    uint64_t steps, samples;
    double train_s, eval_s;
    double loss;             /* of the last step */
    double loss_sum, loss_n; /* over the samples since the last evaluation, for people */
    double value, eval_loss; /* of the last evaluation */
    double best;
    bool evaluated;
} weir_tally;
void weir_tally_step(weir_tally *, const weir_step_report *);
void weir_tally_evaluated(weir_tally *, const weir_trainer *, const weir_score *, double seconds);

weir_err weir_report_start(weir_journal *, const weir_trainer *);
/* One sentence: said by weir_log, and an event of the log. */
weir_err weir_report_warning(weir_journal *, const char *text);
/* All that is known before the first step. */
weir_err weir_report_warnings(weir_journal *, const weir_trainer *);
void weir_report_live(weir_journal *, const weir_trainer *, const weir_step_report *);
weir_err weir_report_step(weir_journal *, const weir_trainer *, const weir_step_report *);
/* Which codecs are used from now on, if that was looked at since the last call. */
weir_err weir_report_choice(weir_journal *, const weir_trainer *);
/* what was taken, with the times of all */
void weir_report_put_choice(weir_json *, const weir_choice *);
weir_err weir_report_eval(weir_journal *, const weir_trainer *, weir_tally *);
typedef struct weir_checkpoint_report {
    uint64_t step;
    const weir_checkpoint_saved *saved;
    double stood_s, waited_s; /* training stood still for it; of which for the one before */
} weir_checkpoint_report;
weir_err weir_report_checkpoint(weir_journal *, const weir_checkpoint_report *);
weir_err weir_report_fault(weir_journal *, const weir_fault *, const char *action);
/* Others go on: who was lost, who there is now. */
weir_err weir_report_change(weir_journal *, const weir_trainer *, const weir_change *);
/* Gathers hashes and bytes from all ranks, so every rank calls it; fills the result. */
weir_err weir_report_end(weir_journal *, weir_trainer *, const weir_tally *, double wall_s,
                         int stopped, weir_result *);
#endif
