/* warn.c - see warn.h. */
#include "train/warn.h"
#include <stdio.h>

static const double MUCH = 1; /* points of accuracy */

int weir_warnings(const weir_codec *codec, const weir_optim *optim, const char *lr, char (*text)[WEIR_WHY_MAX])
{
    int n = 0;

    if (codec->rate > 0 && codec->rate != 1)
        snprintf(text[n++], WEIR_WHY_MAX, "--codec %s wants %g times the rate of dense training; --lr %s is taken as it is", codec->plug.name, codec->rate, lr);
    if (optim->adaptive && codec->adamw_drop > MUCH)
        snprintf(text[n++], WEIR_WHY_MAX, "--codec %s with --optim %s loses accuracy: %g points with adamw, when it was measured (docs/CONVERGENCE.md); sgd with momentum loses at most %g points",
                 codec->plug.name, optim->plug.name, codec->adamw_drop, codec->drop);
    return n;
}
