/* sim_compute.c - how long work takes, and tasks that in a real world would be threads. */
#include "net/sim.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

weir_err weir_sim_speeds_read(weir_sim *s)
{
    const char *at = s->o->slow;
    char *end;

    for (int r = 0; r < s->nodes; r++)
        s->node[r].speed = 1;
    while (at && *at) {
        long rank = strtol(at, &end, 10);
        double times = *end == 'x' ? strtod(end + 1, &end) : 0;
        if (!isdigit((unsigned char)*at) || rank < 0 || rank >= s->nodes || !(times > 0) ||
            !isfinite(times) || (*end && *end != '/'))
            return weir_fail(WEIR_USAGE,
                             "net sim: slow=%.100s: RANKxTIMES, such as 3x2.5, was expected where "
                             "it says '%.40s'",
                             s->o->slow, at);
        s->node[rank].speed = times;
        at = *end ? end + 1 : end;
    }
    return WEIR_OK;
}

/* Marsaglia and Tsang's method; shape at least 1. Mean: shape. */
static double gamma_of(weir_rng *r, double shape)
{
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);

    for (;;) {
        double x = weir_rng_normal(r), v = 1 + c * x, u = ((double)weir_rng_u32(r) + 0.5) * 0x1p-32;
        v = v * v * v;
        if (v > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}

/* Of mean 1 and the chosen coefficient of variation. */
static double draw(const weir_sim_options *o, weir_rng *r)
{
    double cv2 = o->cv * o->cv, shape;

    if (o->draw == WEIR_SIM_LOGNORMAL)
        return exp(sqrt(log1p(cv2)) * weir_rng_normal(r) - 0.5 * log1p(cv2));
    shape = 1 / cv2;
    if (shape >= 1)
        return gamma_of(r, shape) * cv2;
    double x = gamma_of(r, shape + 1), u = ((double)weir_rng_u32(r) + 0.5) * 0x1p-32;
    return x * pow(u, cv2) * cv2;
}

double weir_sim_cost(weir_net *n, double nominal)
{
    weir_sim *s = weir_sim_of(n);
    weir_sim_node *a = weir_sim_node_of(n);
    double cost = (s->o->cost > 0 ? s->o->cost : nominal) * a->speed;
    weir_rng r;

    if (s->o->draw == WEIR_SIM_CONSTANT || !(s->o->cv > 0))
        return cost;
    r = weir_rng_at((uint64_t)s->o->seed, WEIR_RNG_SIM, 2ull << 56 | a->draws++,
                    (uint32_t)weir_sim_index(n));
    return cost * draw(s->o, &r);
}

double weir_sim_stood(weir_net *n)
{
    const weir_sim_node *a = weir_sim_node_of(n);
    double last = fmin(weir_sim_of(n)->now, a->paused_until) - a->paused_at;

    return a->stood + fmax(last, 0);
}

/* ---- tasks ---- */

typedef struct task {
    weir_task task; /* first */
    weir_net *net;
    weir_net_task *fibre;
} task;

static weir_err start(weir_rt *rt, const char *name, weir_err (*fn)(void *), void *arg,
                      weir_task **out)
{
    task *t = calloc(1, sizeof *t);
    weir_err err;

    if (!t)
        return weir_fail_nomem(sizeof *t);
    t->task.rt = rt;
    t->net = ((struct weir_net_rt *)rt)->net;
    err = weir_net_fibre(t->net, name, fn, arg, &t->fibre);
    if (err) {
        free(t);
        return err;
    }
    *out = &t->task;
    return WEIR_OK;
}

static weir_err join(weir_task *base)
{
    task *t = (task *)base;
    weir_err err = weir_net_fibre_join(t->net, t->fibre);

    free(t);
    return err;
}

void weir_sim_tasks(weir_net *n)
{
    n->rt.rt.start = start;
    n->rt.rt.join = join;
}
