/* profile.c - see profile.h. The file is one JSON object; times are whole nanoseconds. */
#include "train/profile.h"
#include "core/file.h"
#include "core/json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

weir_err weir_profile_new(int stages, weir_arena *arena, weir_profile **out)
{
    weir_profile *p = WEIR_NEW(arena, weir_profile, 1);

    if (!p || !(p->second = WEIR_NEW(arena, double, stages + 3)))
        return weir_fail_nomem((size_t)(stages + 3) * sizeof(double));
    p->stages = stages;
    *out = p;
    return WEIR_OK;
}

void weir_profile_clear(weir_profile *p)
{
    memset(p->second, 0, (size_t)weir_profile_pieces(p) * sizeof *p->second);
    p->steps = 0;
}

static int64_t nanoseconds(const weir_profile *p, int piece)
{
    return llround(weir_profile_cost(p, piece) * 1e9);
}

static char *write_text(const weir_profile *p)
{
    weir_json *j = weir_json_object(), *back = weir_json_array();
    char *text = NULL;

    if (j && back) {
        for (int i = 0; i < p->stages; i++)
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

static weir_err fill(const weir_json *j, const char *path, int stages, weir_profile *p)
{
    const weir_json *back = weir_json_get(j, "backward_ns");
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

weir_err weir_profile_load(const char *path, int stages, weir_arena *arena, weir_profile **out)
{
    weir_profile *p;
    weir_json *j;
    char *text;
    size_t n;
    weir_err err;

    WEIR_TRY(weir_profile_new(stages, arena, &p));
    WEIR_TRY(weir_file_read(path, 1 << 20, &text, &n));
    err = weir_json_parse(text, n, path, &j);
    free(text);
    if (err)
        return err;
    err = fill(j, path, stages, p);
    weir_json_free(j);
    if (!err)
        *out = p;
    return err;
}
