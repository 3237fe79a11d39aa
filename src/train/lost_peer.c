/* lost_peer.c - computing that ends when a peer is lost: what comes of it then is of no use. */
#include "train/trainer.h"

static bool is_over(const void *net) { return weir_net_over(net); }

/* In a simulated world computing takes no time of its own. */
void weir_trainer_heed(const weir_trainer *t, weir_pass *pass)
{
    pass->halt = weir_net_simulated(t->net) ? NULL : is_over;
    pass->halt_arg = t->net;
}

/* Not by exchanging something: where memory is common, what a lost rank did last stands there
 * still, and is taken for an answer. */
static weir_err say_who_is_lost(void *net) { return weir_net_lost(net); }

weir_err weir_trainer_lost(weir_trainer *t, weir_err halted)
{
    if (halted == WEIR_LOST)
        WEIR_TRY(weir_line_call(t->line, say_who_is_lost, t->net));
    return halted;
}
