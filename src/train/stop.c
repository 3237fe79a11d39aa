/* stop.c - see stop.h. */
#include "train/stop.h"
#include "train/elastic.h"
#include <signal.h>

int weir_stop_here(const weir_trainer *t)
{
    int stop = t->stop ? atomic_load(t->stop) : 0;

    return stop ? stop : weir_net_asked(t->net);
}

bool weir_stop_told(weir_trainer *t)
{
    bool told = t->elastic ? weir_elastic_leaves(t) : weir_stop_here(t) != 0;

    if (!told && !weir_net_stopping(t->net))
        return false;
    weir_net_phase(t->net, WEIR_PHASE_STOP, t->step);
    return true;
}

/* As the notes of a step put it: whatever is neither of the other two is SIGTERM. */
weir_err weir_stop_agree(weir_trainer *t, bool broken)
{
    int stop = weir_stop_here(t);
    double votes[] = {stop && stop != SIGINT && stop != SIGHUP, stop == SIGINT, stop == SIGHUP,
                      broken};
    weir_noted all = {0};

    WEIR_TRY(weir_trainer_sum(t, votes, 4));
    all.stop = votes[0] > 0 ? SIGTERM : votes[1] > 0 ? SIGINT : votes[2] > 0 ? SIGHUP : 0;
    all.told = (int)(votes[0] + votes[1] + votes[2]);
    all.leave = (int)votes[3];
    weir_elastic_heed(t, &all);
    return WEIR_OK;
}
