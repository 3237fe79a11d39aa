/* profile.c - see profile.h. The file is one JSON object; times are whole nanoseconds. */
#include "train/profile.h"
#include "core/file.h"
#include "core/json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

weir_err weir_profile_new(weir_net *net, const weir_workload *of, weir_arena *arena,
                          weir_profile **out)
{
    weir_profile *p = WEIR_NEW(arena, weir_profile, 1);

    if (!p || !(p->second = WEIR_NEW(arena, double, of->stages + 3)))
        return weir_fail_nomem((size_t)(of->stages + 3) * sizeof(double));
    p->net = net;
    p->of = *of;
    *out = p;
    return WEIR_OK;
}

void weir_profile_clear(weir_profile *p)
{
    memset(p->second, 0, (size_t)weir_profile_pieces(p) * sizeof *p->second);
    p->steps = p->samples = 0;
}

/* ---- in a step ---- */

static bool simulated(const weir_profile *p) { return p->net && weir_net_simulated(p->net); }

static double now(const weir_profile *p) { return weir_now(weir_net_rt(p->net)); }

double weir_profile_cost(const weir_profile *p, int piece)
{
    if (!(p->steps > 0))
        return 0;
    double cost = p->second[piece] / p->steps, samples = p->samples / p->steps;
    return piece == weir_cost_update(p) ? cost : cost * (p->now / samples);
}

void weir_profile_begin(weir_profile *p, uint64_t samples)
{
    if (!p)
        return;
    p->now = (double)samples;
    weir_profile_go_on(p);
}

void weir_profile_go_on(weir_profile *p)
{
    if (p)
        p->mark = now(p);
}

void weir_profile_over(weir_profile *p, int piece)
{
    if (!p)
        return;
    if (simulated(p)) {
        weir_net_spend(p->net, weir_net_cost(p->net, weir_profile_cost(p, piece)));
        return;
    }
    double at = now(p);
    p->second[piece] += at - p->mark;
    p->mark = at;
}

void weir_profile_commit(weir_profile *p)
{
    if (!p || simulated(p)) /* there it is only spent */
        return;
    p->steps++;
    p->samples += p->now;
}

/* ---- to a file ---- */

static int64_t nanoseconds(const weir_profile *p, int piece)
{
    return p->steps > 0 ? llround(p->second[piece] / p->steps * 1e9) : 0;
}

static char *write_text(const weir_profile *p)
{
    weir_json *j = weir_json_object(), *back = weir_json_array();
    char *text = NULL;

    if (j && back) {
        weir_json_put_text(j, "model", p->of.model);
        weir_json_put_text(j, "input", p->of.input);
        weir_json_put_int(j, "params", (int64_t)p->of.params);
        weir_json_put_int(j, "threads", p->of.threads);
        weir_json_put_real(j, "samples", p->steps > 0 ? p->samples / p->steps : 0);
        for (int i = 0; i < p->of.stages; i++)
            weir_json_add_int(back, nanoseconds(p, WEIR_COST_BACK + i));
        weir_json_put_int(j, "forward_ns", nanoseconds(p, WEIR_COST_FORWARD));
        weir_json_put(j, "backward_ns", back);
        back = NULL;
        weir_json_put_int(j, "rest_ns", nanoseconds(p, weir_cost_rest(p)));
        weir_json_put_int(j, "update_ns", nanoseconds(p, weir_cost_update(p)));
        weir_json_put_int(j, "steps", (int64_t)p->steps);
        text = weir_json_text(j);
    }
    weir_json_free(back);
    weir_json_free(j);
    return text;
}

weir_err weir_profile_save(const weir_profile *p, const char *path)
{
    char *text = write_text(p);
    weir_file *f;
    weir_err err;

    if (!text)
        return weir_fail_nomem(0);
    err = weir_file_create(path, &f);
    if (!err &&
        ((err = weir_file_write(f, text, strlen(text))) || (err = weir_file_write(f, "\n", 1))))
        weir_file_drop(f);
    else if (!err)
        err = weir_file_commit(f);
    free(text);
    return err;
}

/* ---- from a file ---- */

/* What it was taken of, which must be what is to be computed. */
static weir_err check_workload(const weir_json *j, const char *path, const weir_workload *of,
                               weir_profile *p)
{
    int64_t params, threads;
    const char *model, *input;

    if (!weir_json_get_text(j, "model", &model) || !weir_json_get_text(j, "input", &input) ||
        !weir_json_get_int(j, "params", &params) || !weir_json_get_int(j, "threads", &threads) ||
        !weir_json_get_real(j, "samples", &p->samples) || !(p->samples > 0) || threads < 1 ||
        threads > INT32_MAX)
        return weir_fail(WEIR_INVALID,
                         "%s: model, input, params, threads and samples were expected in a "
                         "profile: take it anew, by weir bench train --profile",
                         path);
    if ((uint64_t)params != of->params || strcmp(input, of->input))
        return weir_fail(WEIR_MISFIT,
                         "%s: the profile is of %s with %lld parameters on inputs of %s, this is "
                         "%s with %zu on %s",
                         path, model, (long long)params, input, of->model, of->params, of->input);
    if (of->threads && threads != of->threads)
        return weir_fail(WEIR_MISFIT,
                         "%s: the profile was taken with --threads %lld, this run has %d: take "
                         "one with as many, or leave out --threads",
                         path, (long long)threads, of->threads);
    p->of.threads = (int)threads;
    return WEIR_OK;
}

static weir_err read_pieces(const weir_json *j, const char *path, weir_profile *p)
{
    const weir_json *back = weir_json_get(j, "backward_ns");
    int stages = p->of.stages;
    int64_t ns[3], x;

    if (!back || !weir_json_get_int(j, "forward_ns", &ns[0]) ||
        !weir_json_get_int(j, "rest_ns", &ns[1]) || !weir_json_get_int(j, "update_ns", &ns[2]))
        return weir_fail(
            WEIR_INVALID,
            "%s: forward_ns, backward_ns, rest_ns and update_ns were expected in a profile", path);
    if (weir_json_length(back) != (size_t)stages)
        return weir_fail(
            WEIR_MISFIT,
            "%s: the profile has %zu stages of backward, this model %d: it is of another model",
            path, weir_json_length(back), stages);
    p->second[WEIR_COST_FORWARD] = (double)ns[0] * 1e-9;
    p->second[weir_cost_rest(p)] = (double)ns[1] * 1e-9;
    p->second[weir_cost_update(p)] = (double)ns[2] * 1e-9;
    for (int i = 0; i < stages; i++) {
        if (!weir_json_int_at(back, (size_t)i, &x))
            return weir_fail(WEIR_INVALID,
                             "%s: backward_ns holds something that is no whole number", path);
        p->second[WEIR_COST_BACK + i] = (double)x * 1e-9;
    }
    for (int i = 0; i < weir_profile_pieces(p); i++)
        if (p->second[i] < 0)
            return weir_fail(WEIR_INVALID, "%s: a time below 0", path);
    p->steps = 1;
    return WEIR_OK;
}

weir_err weir_profile_load(const char *path, weir_net *net, const weir_workload *of,
                           weir_arena *arena, weir_profile **out)
{
    weir_profile *p;
    weir_json *j;
    char *text;
    size_t n;
    weir_err err;

    WEIR_TRY(weir_profile_new(net, of, arena, &p));
    WEIR_TRY(weir_file_read(path, 1 << 20, &text, &n));
    err = weir_json_parse(text, n, path, &j);
    free(text);
    if (err)
        return err;
    err = check_workload(j, path, of, p);
    if (!err)
        err = read_pieces(j, path, p);
    weir_json_free(j);
    if (!err)
        *out = p;
    return err;
}
