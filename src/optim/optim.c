/* optim.c - the optimisers there are, and what several of them need. */
#include "optim/optim.h"

weir_plugs weir_optims = (const weir_plug *const[]){
#define X(name) &weir_optim_##name.plug,
#include "optim/list.h"
#undef X
    NULL,
};

double weir_power(double x, uint64_t n)
{
    double y = 1;

    for (; n; n >>= 1, x *= x)
        if (n & 1)
            y *= x;
    return y;
}
