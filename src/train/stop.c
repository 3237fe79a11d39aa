/* stop.c - see stop.h. */
#include "train/stop.h"
#include <signal.h>

static int here(const weir_trainer *t) { return t->stop ? atomic_load(t->stop) : 0; }

bool weir_stop_told(const weir_trainer *t)
{
    if (!here(t) && !weir_net_stopping(t->net))
        return false;
    weir_net_phase(t->net, WEIR_PHASE_STOP, t->step);
    return true;
}

/* As the notes of a step put it: whatever is neither of the other two is SIGTERM. */
weir_err weir_stop_agree(weir_trainer *t)
{
    int stop = here(t);
    double votes[] = {stop && stop != SIGINT && stop != SIGHUP, stop == SIGINT, stop == SIGHUP};

    WEIR_TRY(weir_trainer_sum(t, votes, 3));
    t->stopped = votes[0] > 0 ? SIGTERM : votes[1] > 0 ? SIGINT : votes[2] > 0 ? SIGHUP : 0;
    return WEIR_OK;
}
