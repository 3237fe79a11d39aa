/* begin.c - where batches come from: begun at the cursor, and begun anew when a step has failed or
 * other members go on. */
#include "train/trainer.h"

enum { AHEAD = 2 }; /* batches that are kept ready */

/* Every size of batch that training meets, so that no step makes anything. */
static weir_err prepare(weir_trainer *t)
{
    const weir_sample_plan *p = &t->plan;
    weir_cursor begin = weir_plan_at(p, 0),
                met[] = {begin, weir_plan_last(p, begin), weir_plan_last(p, t->cursor)};
    uint64_t first;
    int n;

    for (int i = 0; i < 3; i++)
        for (int m = 0; m < p->micro; m++) {
            weir_sample_plan_slice(p, met[i], m, &first, &n);
            WEIR_TRY(weir_model_prepare(t->model, n));
        }
    return WEIR_OK;
}

weir_err weir_trainer_begin(weir_trainer *t)
{
    if (t->dry)
        return WEIR_OK;
    weir_loader_close(t->loader);
    t->loader = NULL;
    WEIR_TRY(prepare(t));
    weir_model_refresh(t->model);
    return weir_loader_open(t->rt, &t->data, &t->plan, (weir_loader_from){t->cursor, t->step},
                            AHEAD, &t->loader);
}

weir_err weir_trainer_rewind(weir_trainer *t)
{
    if (t->exchange->drifts)
        return weir_fail(WEIR_MISFIT,
                         "--exchange %s: what a step has sent cannot be taken back, so one that "
                         "failed cannot be repeated",
                         t->set->exchange);
    weir_line_clear(t->line);
    return weir_trainer_begin(t);
}
