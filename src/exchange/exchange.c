/* exchange.c - the table. */
#include "exchange/exchange.h"

#define X(name) &weir_exchange_##name.plug,
static const weir_plug *const table[] = {
#include "exchange/list.h"
    NULL};
#undef X
weir_plugs weir_exchanges = table;
