/* bench_coll.c - collectives, timed: weir bench allreduce. */
#include "coll/coll.h"
#include "core/log.h"
#include "net/mesh.h"
#include "train/run.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reducing {
    const char *coll;
    size_t floats;
    bool json;
    FILE *out;
} reducing;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { ROUNDS = 21, PATIENCE = 10 /* seconds */ };

static weir_err check_sum(weir_coll_use *use, weir_group *group, float *x, size_t n)
{
    for (size_t k = 0; k < n; k++)
        x[k] = (float)(k % 13);
    WEIR_TRY(weir_allreduce(use, group, x, n, &weir_sum_f32));
    for (size_t k = 0; k < n; k++)
        if (x[k] != (float)(k % 13) * (float)group->size)
            return weir_fail(WEIR_FAILED, "the sum of element %zu is wrong", k);
    memset(x, 0, n * sizeof *x); /* sums of nothing stay so, however often */
    return WEIR_OK;
}

/* Over a slow link one round is enough to know: all take as many as the first finds it has
 * patience for, having seen how long one takes. */
static weir_err agree_rounds(weir_net *net, weir_coll_use *use, weir_group *group, double one,
                             int *rounds)
{
    double some = one > 0 ? PATIENCE / one : *rounds;
    int n = some < 1 ? 1 : some < *rounds ? (int)some : *rounds;

    if (weir_net_simulated(net))
        return WEIR_OK;
    WEIR_TRY(weir_broadcast(use, group, 0, &n, sizeof n));
    *rounds = n;
    return WEIR_OK;
}

/* The median of some rounds: short sums many times in a row, as one would time any other library's,
 * after a barrier. */
static weir_err time_rounds(weir_net *net, float *x, size_t n, weir_coll_use *use,
                            weir_group *group, double *median)
{
    int rounds = n > 4 << 20 ? 7 : ROUNDS, calls = n <= 1 << 14 ? 100 : n <= 1 << 20 ? 10 : 1;
    double took[ROUNDS];

    if (weir_net_simulated(net))
        rounds = calls = 1; /* one is like the other */
    for (int i = -1; i < rounds; i++) {
        WEIR_TRY(weir_barrier(use, group));
        double t = weir_net_now(net);
        for (int k = 0; k < calls; k++)
            WEIR_TRY(weir_allreduce(use, group, x, n, &weir_sum_f32));
        if (i >= 0)
            took[i] = (weir_net_now(net) - t) / calls;
        else
            WEIR_TRY(agree_rounds(net, use, group, weir_net_now(net) - t, &rounds));
    }
    qsort(took, (size_t)rounds, sizeof *took, by_value);
    *median = took[rounds / 2];
    return WEIR_OK;
}

static weir_err bench_coll(weir_mesh *mesh, const reducing *r, weir_coll_use *use)
{
    weir_net *net = mesh->net;
    weir_group *group = &mesh->all;
    double s = 0, bytes = 4.0 * (double)r->floats, rate;
    char text[200];
    void *x = NULL; /* as it stays in a dry world, which moves sizes only */

    if (!weir_net_dry(net)) {
        WEIR_TRY(weir_coll_memory(use, group, r->floats * sizeof(float), mesh->arena, &x));
        WEIR_TRY(check_sum(use, group, x, r->floats));
    }
    WEIR_TRY(time_rounds(net, x, r->floats, use, group, &s));
    if (!weir_group_leads(group))
        return WEIR_OK;
    weir_json *j = weir_json_object();
    if (!j)
        return weir_fail_nomem(0);
    rate = s > 0 ? bytes / s / 1e9 : NAN; /* a rank alone in a simulated world takes no time */
    weir_json_put_text(j, "bench", "allreduce");
    weir_json_put_text(j, "net", weir_net_name(net));
    weir_json_put_text(j, "coll", use->coll->plug.name);
    weir_json_put_int(j, "ranks", group->size);
    weir_json_put_int(j, "floats", (int64_t)r->floats);
    weir_json_put_real(j, "us", s * 1e6);
    weir_json_put_real(j, "gb_per_s", rate);
    weir_json_put_real(j, "busbw", rate * 2 * (group->size - 1) / group->size);
    weir_json_put_bool(j, "virtual", weir_net_simulated(net));
    snprintf(text, sizeof text, "%s over %s, %d ranks, %zu floats: %.1f us%s, %.3f GB/s",
             use->coll->plug.name, weir_net_name(net), group->size, r->floats, s * 1e6,
             weir_net_simulated(net) ? " (virtual)" : "", rate);
    return weir_bench_print(r->out, j, r->json, text);
}

static weir_err bench_colls(weir_mesh *mesh, const reducing *r)
{
    weir_coll_use use;

    if (r->coll) {
        WEIR_TRY(weir_coll_open(r->coll, &mesh->all, mesh->arena, &use));
        return bench_coll(mesh, r, &use);
    }
    for (weir_plugs p = weir_colls; *p; p++) { /* all that can serve here */
        weir_err err = weir_coll_open((*p)->name, &mesh->all, mesh->arena, &use);
        bool opened = !err;
        if (opened)
            err = bench_coll(mesh, r, &use);
        if (err == WEIR_MISFIT && opened && weir_group_leads(&mesh->all))
            weir_log(WEIR_LOG_WARN, "bench", "%s is left out: %s", (*p)->name, weir_why_text());
        WEIR_TRY(err == WEIR_MISFIT ? WEIR_OK : err);
    }
    return WEIR_OK;
}

/* In a simulated world all ranks are given the same `arg`. */
static weir_err reduce_rank(weir_net *net, void *arg)
{
    weir_mesh mesh;
    char why[WEIR_WHY_MAX];
    weir_err err;

    WEIR_TRY(weir_mesh_open(&mesh, net));
    err = bench_colls(&mesh, arg);
    snprintf(why, sizeof why, "%s", weir_why_text());
    weir_mesh_close(&mesh);
    return err ? weir_fail(err, "%s", why) : WEIR_OK;
}

weir_err weir_bench_allreduce(const weir_settings *s, const weir_rank_info *rank_info,
                              const char *coll, size_t floats, bool json, FILE *out)
{
    reducing r = {.coll = coll, .floats = floats, .json = json, .out = out};
    weir_net_facts facts;

    WEIR_TRY(weir_net_check(s->net, &facts));
    if (facts.costs || facts.varies)
        return weir_fail(WEIR_MISFIT,
                         "--net %s: cost, draw and slow are of work, and bench allreduce has none",
                         s->net);
    return weir_net_run(s->net, rank_info, reduce_rank, &r);
}
