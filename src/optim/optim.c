/* optim.c - the optimisers there are. */
#include "optim/optim.h"

weir_plugs weir_optims = (const weir_plug *const[]){
#define X(name) &weir_optim_##name.plug,
#include "optim/list.h"
#undef X
    NULL,
};
