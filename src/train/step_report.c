/* step_report.c - what a step came to. Its bytes are known only when the next step's notes are in:
 * until then the trainer keeps the report, and hands it out whole. */
#include "train/progress.h"
#include <math.h>

/* What codecs have counted; the next step's count begins anew. */
static void add_codecs(weir_trainer *t, weir_step_report *report)
{
    double sent = 0, all = 0;

    for (weir_lane *l = t->lane; l < t->lane + t->lanes; l++) {
        report->codec_s += l->codec_s;
        report->wire_s += l->wire_s;
        l->codec_s = l->wire_s = 0;
        sent += weir_lane_sparse(l) ? (double)l->stats.sent : 0;
        all += weir_lane_sparse(l) ? (double)l->bucket->n : 0;
    }
    report->density = t->dry ? NAN : all > 0 ? sent / all : 1;
}

/* What is held back, now. */
static void add_backlog(const weir_trainer *t, weir_step_report *report)
{
    weir_backlog all = {0};

    for (int i = 0; i < t->lanes; i++)
        weir_lane_backlog(&t->lane[i], &all);
    report->held = sqrt(all.sumsq);
    report->over = all.over > 0 ? all.over : NAN;
}

void weir_step_report_make(weir_trainer *t)
{
    const weir_step *s = &t->now;
    double ended = weir_now(t->rt);

    t->pending = (weir_step_report){.step = t->step,
                                    .samples = s->samples,
                                    .epoch = weir_progress_epochs(t),
                                    .loss = weir_trainer_loss(t),
                                    .rate = s->commit.rate,
                                    .norm = s->commit.norm,
                                    .seconds = ended - s->begun,
                                    .forward_s = s->forwarded - s->begun,
                                    .compute_s = s->computed - s->begun,
                                    .wait_s = ended - s->computed,
                                    .apart = s->commit.apart};
    add_codecs(t, &t->pending);
    if (t->looks)
        add_backlog(t, &t->pending);
}

void weir_step_report_take(weir_trainer *t, double sent, double received, weir_step_report *whole)
{
    *whole = t->pending;
    whole->sent = sent;
    whole->received = received;
    if (t->pending.step)
        t->flushed = *whole;
    t->pending.step = 0;
}

weir_err weir_trainer_flush(weir_trainer *t, weir_step_report *whole)
{
    double bytes[] = {(double)t->traffic.last_sent, (double)t->traffic.last_received};

    if (t->pending.step)
        WEIR_TRY(weir_trainer_sum(t, bytes, 2));
    weir_step_report_take(t, bytes[0], bytes[1], whole);
    return WEIR_OK;
}
