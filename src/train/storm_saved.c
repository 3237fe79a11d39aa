/* storm_saved.c - what a storm's run has left behind in its directory: a whole checkpoint, of the
 * one history, from which it goes on to its end where nothing goes wrong. See storm.h. */
#include "train/checkpoint.h"
#include "train/storm_inside.h"

typedef unsigned long long ull;

/* ---- going on from it ---- */

/* What the run was as it went on, and how far it came. */
typedef struct going_on {
    bool begun;
    uint64_t step, hash, last;
} going_on;

static void see(void *arg, weir_seen what, const weir_trainer *t, const void *thing)
{
    going_on *g = arg;

    (void)thing;
    if (what == WEIR_SEEN_BEGUN && !g->begun)
        *g = (going_on){true, t->step, weir_trainer_hash(t), t->step};
    if (what == WEIR_SEEN_COMMIT && t->step > g->last)
        g->last = t->step;
}

static void end(void *arg, weir_net *net, const weir_seen_end *e) { (void)arg, (void)net, (void)e; }

static weir_err go_on(const storm_watch *w, going_on *g)
{
    const weir_witness witness = {see, end, g, WEIR_STORM_BUCKET};
    const weir_hooks hooks = {.witness = &witness};
    weir_storm calm = *w->storm;
    weir_settings set;

    calm.faults = calm.joins = 0;
    WEIR_TRY(weir_storm_settings(&calm, w->arena, &set));
    WEIR_TRY(weir_settings_set(&set, "resume", calm.out));
    return weir_storm_train(&calm, &set, &hooks);
}

/* ---- is it of the history ---- */

static bool was_settled(const storm_watch *w, uint64_t step, uint64_t hash)
{
    for (int i = 0; i < w->settles; i++)
        if (w->settled[i].step == step && w->settled[i].hash == hash)
            return true;
    return false;
}

weir_err weir_storm_check_saved(storm_watch *w)
{
    char path[WEIR_CHECKPOINT_PATH];
    going_on g = {0};
    weir_err err;

    if (!w->result->saved || w->result->what[0])
        return WEIR_OK;
    if (weir_checkpoint_find(w->storm->out, path)) {
        weir_storm_broken(w, "saved: %llu checkpoints were written, and none is whole: %.200s",
                          (ull)w->result->saved, weir_why_text());
        return WEIR_OK;
    }
    err = go_on(w, &g);
    w->result->resumed++;
    if (err)
        weir_storm_broken(w, "saved: the run does not go on from what was saved: %.200s",
                          weir_why_text());
    else if (!was_settled(w, g.step, g.hash))
        weir_storm_broken(w,
                          "saved: the run goes on at step %llu with hash %016llx, which it "
                          "never had",
                          (ull)g.step, (ull)g.hash);
    else if (g.last != (uint64_t)w->storm->steps)
        weir_storm_broken(w, "saved: the run went on from step %llu to %llu, not to %d",
                          (ull)g.step, (ull)g.last, w->storm->steps);
    return WEIR_OK;
}
