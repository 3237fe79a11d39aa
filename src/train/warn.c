/* warn.c - see warn.h. */
#include "train/warn.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void weir_warned_add(weir_warned *w, const char *format, ...)
{
    va_list list;

    if (w->n >= WEIR_WARNED) {
        w->n = WEIR_WARNED + 1;
        snprintf(w->text[WEIR_WARNED], WEIR_WHY_MAX, "and %d more, for which there was no room",
                 ++w->more);
        return;
    }
    va_start(list, format);
    vsnprintf(w->text[w->n++], WEIR_WHY_MAX, format, list);
    va_end(list);
}

static const double MUCH = 1; /* points of accuracy */

/* A run that is over before its codec has got to work. */
static int too_short(const weir_warn_facts *p, char *text)
{
    double dense = p->feedback ? ceil(p->feedback->warmup * p->epoch_steps) : 0,
           ramp = p->feedback ? ceil(p->feedback->ramp * p->epoch_steps) : 0;
    const char *name = p->codec->plug.name;

    if (dense > 0 && p->steps <= dense)
        return snprintf(text, WEIR_WHY_MAX,
                        "--codec %s: nothing is compressed, the first %.0f steps of %s are dense "
                        "and this run has %.0f; its options warmup%s, in epochs, make it begin "
                        "earlier (docs/GUIDE.md says what that costs)",
                        p->spec, dense, name, p->steps, ramp > 0 ? " and ramp" : "");
    if (ramp > 0 && p->steps <= dense + ramp)
        return snprintf(text, WEIR_WHY_MAX,
                        "--codec %s: the density of %s falls until step %.0f, this run has %.0f, "
                        "and ratio counts none of them; its options warmup and ramp, in epochs, "
                        "make it fall earlier (docs/GUIDE.md says what that costs)",
                        p->spec, name, dense + ramp, p->steps);
    return 0;
}

int weir_warn_all(const weir_warn_facts *p, char (*text)[WEIR_WHY_MAX])
{
    const weir_codec *codec = p->codec;
    int n = 0;

    if (codec->rate > 0 && codec->rate != 1)
        snprintf(text[n++], WEIR_WHY_MAX,
                 "--codec %s wants %g times the rate of dense training; --lr %s is taken as it is",
                 codec->plug.name, codec->rate, p->lr);
    if (p->optim->adaptive && codec->adamw_drop > MUCH)
        snprintf(text[n++], WEIR_WHY_MAX,
                 "--codec %s with --optim %s loses accuracy: %g points with adamw, when it was "
                 "measured (docs/CONVERGENCE.md); sgd with momentum loses at most %g points",
                 codec->plug.name, p->optim->plug.name, codec->adamw_drop, codec->drop);
    return n + (too_short(p, text[n]) > 0);
}

weir_err weir_warn_never_lost(const char *name)
{
    static const char *const part[] = {"residual", "owner-residual", "corrected"};
    const char *last = strrchr(name, '.');

    for (size_t i = 0; last && i < sizeof part / sizeof *part; i++)
        if (!strcmp(last + 1, part[i]))
            return weir_fail(
                WEIR_MISFIT,
                "%s would be lost: the run was saved with a codec that holds back what these "
                "settings do not send. Go on with the --codec, and the options of it, that it had; "
                "its option warmup=1e6 makes all steps dense from here on, and the first one sends "
                "what was held back",
                name);
    return WEIR_OK;
}

weir_err weir_warn_saved_with(weir_err err, const char *settings)
{
    const char *codec = err == WEIR_MISFIT ? strstr(settings, "\ncodec ") : NULL;

    return codec ? weir_fail(err, "%s; it was saved with --codec %.*s", weir_why_text(),
                             (int)strcspn(codec + 7, "\n"), codec + 7)
                 : err;
}
