/* exchange.c - the table, and the one function that refuses. */
#include "exchange/exchange.h"

#define X(name) &weir_exchange_##name.plug,
static const weir_plug *const table[] = {
#include "exchange/list.h"
    NULL};
#undef X
weir_plugs weir_exchanges = table;

const char *weir_exchange_refuse(const weir_exchange *exchange, const weir_codec *codec,
                                 const weir_optim *optim, const weir_net_facts *net, int ranks)
{
    (void)net, (void)ranks;
    if (exchange->drifts && !optim->bare)
        return "messages are applied when they come, and this optimiser's step is more than a "
               "gradient times a rate: take sgd, or --exchange allreduce";
    if (exchange->drifts && codec->rounds > 1)
        return "a message of this codec means something only when everybody's of that step are "
               "summed, and nobody waits for that here: take another codec, or --exchange "
               "allreduce";
    if (codec->chooses && !exchange->chooses)
        return "a codec can be chosen only where all workers step together: name one";
    return NULL;
}
