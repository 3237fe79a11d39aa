/* forecast.c - see forecast.h. */
#include "exchange/forecast.h"

/* seconds between two lanes that do not mean that the second had to be waited for */
static const double BREATH = 2e-4;

weir_err weir_forecast_make(weir_forecast *f, const weir_lane *lane, int lanes, int members,
                            weir_arena *arena)
{
    const weir_lane *last = &lane[lanes - 1], *before = last - 1;

    *f = (weir_forecast){.lane = lane, .lanes = lanes, .members = members};
    f->ready = WEIR_NEW(arena, double, lanes);
    f->taken = weir_alloc_many(arena, (size_t)lanes, sizeof *f->taken);
    if (!f->ready || !f->taken)
        return weir_fail_nomem((size_t)lanes * sizeof *f->taken);
    f->joins = lanes > 1 && last->candidates == 1 && last->codec->kind->raw &&
               before->candidates > 1 &&
               before->bucket->grad + before->bucket->n == last->bucket->grad;
    return WEIR_OK;
}

void weir_forecast_forget(weir_forecast *f, bool codecs)
{
    for (int i = 0; i < f->lanes; i++)
        for (int k = 0; k < WEIR_AUTO_MOST; k++) {
            f->taken[i][k].took = 0;
            if (codecs)
                f->taken[i][k].codec = 0;
        }
}

bool weir_forecast_joined(const weir_forecast *f, const int *pick)
{
    return f->joins && pick[f->lanes - 2] == 0;
}

/* The least counts: what came on top was somebody else's doing. */
static void lower(double *x, double seen)
{
    if (*x == 0 || seen < *x)
        *x = seen;
}

void weir_forecast_see(weir_forecast *f, const int *pick, const weir_sight *s)
{
    for (int i = 0; i < f->lanes; i++) {
        if (f->lane[i].candidates == 1 || pick[i] == 0)
            continue; /* dense ones go by the line */
        lower(&f->taken[i][pick[i]].took, s[i].took);
        lower(&f->taken[i][pick[i]].codec, s[i].codec);
    }
}

/* ---- the wire ---- */

static double dense_bytes(const weir_forecast *f, const int *pick, int i)
{
    const weir_lane *l = &f->lane[i];
    double bytes = sizeof(float) * (double)(l->bucket->n + l->notes);

    if (i == f->lanes - 1 && weir_forecast_joined(f, pick))
        bytes += sizeof(float) * (double)f->lane[i - 1].bucket->n;
    return bytes;
}

static double link_share(const weir_forecast *f) { return 2.0 * (f->members - 1) / f->members; }

static double wire(const weir_forecast *f, const weir_lane_codec *r, weir_when when)
{
    double m = (double)weir_codec_usual(r->kind, r->self, when), p = f->members;

    if (r->kind->combine == WEIR_COMBINE_GATHER)
        return f->collective + f->byte * (p - 1) * m;
    return f->collective + f->byte * link_share(f) * m;
}

static double lane_seconds(const weir_forecast *f, const int *pick, int i, weir_when when)
{
    const weir_lane *l = &f->lane[i];
    const weir_lane_codec *r = &l->candidate[pick[i]];

    if (i == f->lanes - 2 && weir_forecast_joined(f, pick))
        return 0;
    if (r->kind->raw)
        return f->collective + f->byte * link_share(f) * dense_bytes(f, pick, i);
    return f->taken[i][pick[i]].took > 0 ? f->taken[i][pick[i]].took
                                         : f->taken[i][pick[i]].codec + wire(f, r, when);
}

/* Seconds over bytes, by least squares; neither less than nothing. */
static void fit_line(weir_forecast *f, const int *dense, const weir_sight *s)
{
    double n = 0, x = 0, y = 0, xx = 0, xy = 0, spread;

    for (int i = 0; i < f->lanes; i++) {
        double b = link_share(f) * dense_bytes(f, dense, i), t = s[i].took;
        if (i == f->lanes - 2 && weir_forecast_joined(f, dense))
            continue;
        n++, x += b, y += t, xx += b * b, xy += b * t;
    }
    spread = n * xx - x * x;
    f->byte = spread > 1e-9 * xx ? (n * xy - x * y) / spread : 0;
    f->collective = (y - f->byte * x) / n;
    if (f->byte <= 0 || f->collective < 0) {
        f->byte = x > 0 ? y / x : 0;
        f->collective = 0;
    }
}

/* When each could have left: one that followed at once upon the one before may have waited as long
 * as that one took. */
static void find_ready(weir_forecast *f, const weir_sight *s)
{
    for (int i = 0; i < f->lanes; i++)
        f->ready[i] = i && s[i].idle < BREATH ? f->ready[i - 1] : s[i].start;
}

/* ---- whole steps ---- */

static double lanes_end(const weir_forecast *f, const int *pick, weir_when when)
{
    double end = 0;

    for (int i = 0; i < f->lanes; i++)
        end = (f->ready[i] > end ? f->ready[i] : end) + lane_seconds(f, pick, i, when);
    return end;
}

void weir_forecast_fit(weir_forecast *f, const int *dense, const weir_sight *s, double step)
{
    fit_line(f, dense, s);
    find_ready(f, s);
    f->rest = step - lanes_end(f, dense, (weir_when){0});
}

double weir_forecast_step(const weir_forecast *f, const int *pick, weir_when when)
{
    return lanes_end(f, pick, when) + f->rest;
}

void weir_forecast_best(const weir_forecast *f, weir_when when, int *pick)
{
    for (int i = 0; i < f->lanes; i++) {
        double least = 0;
        int best = 0;
        for (int k = 0; k < f->lane[i].candidates; k++) {
            pick[i] = k;
            double t = f->lane[i].candidate[k].kind->raw
                           ? f->collective + f->byte * link_share(f) * dense_bytes(f, pick, i)
                           : lane_seconds(f, pick, i, when);
            if (k == 0 || t < least)
                best = k, least = t;
        }
        pick[i] = best;
    }
}
