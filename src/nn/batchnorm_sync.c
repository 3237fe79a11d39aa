/* batchnorm_sync.c - batch norm with the statistics of all workers: three sums over them, two in forward (values, then squared
 * distances from the mean, which keeps digits that a sum of squares would lose) and one in backward.
 *
 * Sums are taken by sample and unit of channels, then over the samples in order, in double: however many threads there are, and
 * nearly however the samples lie on workers, they come out the same. */
#include "nn/batchnorm.h"
#include "nn/share.h"
#include <math.h>
#include <string.h>

enum { MOST_LANES = 16 };

/* For one batch size. The float arrays have units * lanes places; those of padding are zero. */
typedef struct sync {
    const weir_batchnorm *norm;
    const weir_run *run;
    weir_param param[WEIR_LAYER_WEIGHTS];
    weir_lanes at;
    int64_t n, places; /* samples, values a channel in each */
    bool relu;
    weir_mem *x, *y, *dx, *dy;
    weir_mem *part;          /* doubles, two for each lane of a unit of a sample */
    weir_mem *mean, *spread; /* of the whole batch; spread: 1 / deviation */
    float *a, *b, *c;        /* coefficients by channel, for the pass that is running */
} sync;

static int64_t wide(const sync *s) { return s->at.units * s->at.lanes; }

/* Lanes of a unit that are there. */
static int64_t lanes_of(const sync *s, int64_t unit)
{
    int64_t left = s->norm->channels - unit * s->at.lanes;

    return !s->at.padded && left < s->at.lanes ? left : s->at.lanes;
}

/* Calls `each` for every unit of every sample, on several threads. */
static void each_unit(sync *s, void (*part)(void *, int64_t, int64_t)) { weir_share(s->n * s->at.units, 1, part, s); }

/* Where the work of number k lies. */
typedef struct spot {
    int64_t unit, first, lanes; /* first: its first channel */
    size_t at;
    double *sum;
} spot;

static spot find_spot(const sync *s, int64_t k)
{
    int64_t unit = k % s->at.units;

    return (spot){unit, unit * s->at.lanes, lanes_of(s, unit), (size_t)(k / s->at.units * s->at.sample + unit * s->at.unit),
                  (double *)s->part->at + 2 * k * s->at.lanes};
}

/* Adds up what the parts have at `which` (0 or 1). */
static void add_parts(const sync *s, int which, double *sum)
{
    memset(sum, 0, (size_t)s->norm->channels * sizeof *sum);
    for (int64_t k = 0; k < s->n * s->at.units; k++) {
        spot p = find_spot(s, k);
        for (int64_t l = 0; l < p.lanes && p.first + l < s->norm->channels; l++)
            sum[p.first + l] += p.sum[which * s->at.lanes + l];
    }
}

/* ---- forward ---- */

static void sum_values(void *arg, int64_t from, int64_t to)
{
    const sync *s = arg;

    for (int64_t k = from; k < to; k++) {
        spot p = find_spot(s, k);
        const float *x = (const float *)s->x->at + p.at;
        double sum[MOST_LANES] = {0};
        for (int64_t i = 0; i < s->places; i++, x += s->at.step)
            for (int64_t l = 0; l < p.lanes; l++)
                sum[l] += x[l];
        memcpy(p.sum, sum, (size_t)s->at.lanes * sizeof *sum);
    }
}

static void sum_squares(void *arg, int64_t from, int64_t to)
{
    const sync *s = arg;

    for (int64_t k = from; k < to; k++) {
        spot p = find_spot(s, k);
        const float *x = (const float *)s->x->at + p.at, *mean = (const float *)s->mean->at + p.first;
        double sum[MOST_LANES] = {0};
        for (int64_t i = 0; i < s->places; i++, x += s->at.step)
            for (int64_t l = 0; l < p.lanes; l++)
                sum[l] += (double)(x[l] - mean[l]) * (double)(x[l] - mean[l]);
        memcpy(p.sum, sum, (size_t)s->at.lanes * sizeof *sum);
    }
}

/* y = (x - mean) * a + b */
static void normalise(void *arg, int64_t from, int64_t to)
{
    const sync *s = arg;

    for (int64_t k = from; k < to; k++) {
        spot p = find_spot(s, k);
        const float *x = (const float *)s->x->at + p.at, *mean = (const float *)s->mean->at + p.first;
        const float *a = s->a + p.first, *b = s->b + p.first;
        float *y = (float *)s->y->at + p.at;
        for (int64_t i = 0; i < s->places; i++, x += s->at.step, y += s->at.step)
            for (int64_t l = 0; l < p.lanes; l++) {
                float v = (x[l] - mean[l]) * a[l] + b[l];
                y[l] = s->relu && !(v > 0) ? 0 : v;
            }
    }
}

/* The squared distances are from the mean as a float; what is left of the mean is taken out of them. */
static double variance_of(double squares, double count, double rest) { return fmax(squares / count - rest * rest, 0); }

/* Sums, then squares: `mean` NULL for a worker without samples. Leaves running statistics, mean and spread. */
static weir_err forward(void *arg)
{
    sync *s = arg;
    int64_t channels = s->norm->channels;
    double *sum = s->norm->sums, *count = sum + 2 * channels, *mean = sum + channels;
    const float *scale = s->param[WEIR_NORM_SCALE].data->at, *shift = s->param[WEIR_NORM_SHIFT].data->at;
    float *m = s->mean->at, *spread = s->spread->at;

    memset(m, 0, (size_t)wide(s) * sizeof *m);
    memset(spread, 0, (size_t)wide(s) * sizeof *spread);
    each_unit(s, sum_values);
    add_parts(s, 0, sum);
    memset(mean, 0, (size_t)channels * sizeof *mean);
    *count = (double)(s->n * s->places);
    WEIR_TRY(weir_run_sum(s->run, sum, 2 * (size_t)channels + 1));
    for (int64_t c = 0; c < channels; c++) {
        mean[c] = sum[c] / *count;
        m[c] = (float)mean[c];
    }
    each_unit(s, sum_squares);
    add_parts(s, 0, sum);
    WEIR_TRY(weir_run_sum(s->run, sum, (size_t)channels));
    for (int64_t c = 0; c < channels; c++) {
        double variance = variance_of(sum[c], *count, mean[c] - (double)(float)mean[c]);
        weir_batchnorm_take(s->norm, s->param, c, mean[c], variance, *count);
        spread[c] = (float)(1 / sqrt(variance + s->norm->eps));
        s->a[c] = scale[c] * spread[c];
        s->b[c] = shift[c] - (float)(mean[c] - (double)m[c]) * s->a[c];
    }
    each_unit(s, normalise);
    return WEIR_OK;
}

/* ---- backward ---- */

static void sum_gradients(void *arg, int64_t from, int64_t to)
{
    const sync *s = arg;

    for (int64_t k = from; k < to; k++) {
        spot p = find_spot(s, k);
        const float *x = (const float *)s->x->at + p.at, *y = (const float *)s->y->at + p.at;
        const float *dy = (const float *)s->dy->at + p.at, *mean = (const float *)s->mean->at + p.first;
        double sum[2][MOST_LANES] = {0};
        for (int64_t i = 0; i < s->places; i++, x += s->at.step, y += s->at.step, dy += s->at.step)
            for (int64_t l = 0; l < p.lanes; l++) {
                float g = s->relu && !(y[l] > 0) ? 0 : dy[l];
                sum[0][l] += g;
                sum[1][l] += (double)g * (double)(x[l] - mean[l]);
            }
        for (int which = 0; which < 2; which++)
            memcpy(p.sum + which * s->at.lanes, sum[which], (size_t)s->at.lanes * sizeof(double));
    }
}

/* dx = a * dy + b * (x - mean) + c */
static void spread_gradients(void *arg, int64_t from, int64_t to)
{
    const sync *s = arg;

    for (int64_t k = from; k < to; k++) {
        spot p = find_spot(s, k);
        const float *x = (const float *)s->x->at + p.at, *y = (const float *)s->y->at + p.at;
        const float *dy = (const float *)s->dy->at + p.at, *mean = (const float *)s->mean->at + p.first;
        const float *a = s->a + p.first, *b = s->b + p.first, *c = s->c + p.first;
        float *dx = (float *)s->dx->at + p.at;
        for (int64_t i = 0; i < s->places; i++, x += s->at.step, y += s->at.step, dy += s->at.step, dx += s->at.step)
            for (int64_t l = 0; l < p.lanes; l++) {
                float g = s->relu && !(y[l] > 0) ? 0 : dy[l];
                dx[l] = a[l] * g + b[l] * (x[l] - mean[l]) + c[l];
            }
    }
}

static weir_err back(void *arg)
{
    sync *s = arg;
    int64_t channels = s->norm->channels;
    double *sum = s->norm->sums, *with_x = sum + channels, *count = sum + 2 * channels;
    const float *scale = s->param[WEIR_NORM_SCALE].data->at, *spread = s->spread->at;
    float *d_scale = s->param[WEIR_NORM_SCALE].grad->at, *d_shift = s->param[WEIR_NORM_SHIFT].grad->at;

    each_unit(s, sum_gradients);
    add_parts(s, 0, sum);
    add_parts(s, 1, with_x);
    *count = (double)(s->n * s->places);
    for (int64_t c = 0; c < channels; c++) { /* this worker's share: the exchange adds them up */
        d_shift[c] = (float)sum[c];
        d_scale[c] = (float)(with_x[c] * (double)spread[c]);
    }
    WEIR_TRY(weir_run_sum(s->run, sum, 2 * (size_t)channels + 1));
    for (int64_t c = 0; c < channels; c++) {
        double by = (double)scale[c] * (double)spread[c];
        s->a[c] = (float)by;
        s->b[c] = (float)(-by * (double)spread[c] * (double)spread[c] * with_x[c] / *count);
        s->c[c] = (float)(-by * sum[c] / *count);
    }
    if (s->dx)
        each_unit(s, spread_gradients);
    return WEIR_OK;
}

/* ---- a worker without samples ---- */

static weir_err idle_forward(const weir_batchnorm *n, const weir_run *run, const weir_param *param)
{
    double *sum = n->sums, *mean = sum + n->channels, *count = sum + 2 * n->channels;

    memset(sum, 0, (size_t)(2 * n->channels + 1) * sizeof *sum);
    WEIR_TRY(weir_run_sum(run, sum, 2 * (size_t)n->channels + 1));
    for (int64_t c = 0; c < n->channels; c++) {
        mean[c] = *count > 0 ? sum[c] / *count : 0;
        sum[c] = 0;
    }
    WEIR_TRY(weir_run_sum(run, sum, (size_t)n->channels));
    for (int64_t c = 0; c<n->channels && * count> 0; c++)
        weir_batchnorm_take(n, param, c, mean[c], variance_of(sum[c], *count, mean[c] - (double)(float)mean[c]), *count);
    return WEIR_OK;
}

weir_err weir_batchnorm_idle(void *self, const weir_run *run, weir_when phase, const weir_param *param)
{
    const weir_batchnorm *n = self;

    if (!n->sync || phase == WEIR_BACK_DATA)
        return WEIR_OK;
    if (phase == WEIR_FORWARD)
        return idle_forward(n, run, param);
    memset(n->sums, 0, (size_t)(2 * n->channels + 1) * sizeof *n->sums);
    return weir_run_sum(run, n->sums, 2 * (size_t)n->channels + 1);
}

/* ---- binding ---- */

static weir_err make_room(const weir_bind *b, sync *s)
{
    size_t floats = (size_t)wide(s) * sizeof(float);

    WEIR_TRY(weir_bind_mem(b, (size_t)(2 * s->n * wide(s)) * sizeof(double), &s->part));
    WEIR_TRY(weir_bind_mem(b, floats, &s->mean));
    WEIR_TRY(weir_bind_mem(b, floats, &s->spread));
    s->a = WEIR_NEW(b->arena, float, 3 * wide(s));
    if (!s->a)
        return weir_fail_nomem(3 * floats);
    s->b = s->a + wide(s);
    s->c = s->b + wide(s);
    return WEIR_OK;
}

weir_err weir_batchnorm_sync(const weir_batchnorm *n, const weir_bind *b, const weir_layout *layout)
{
    sync *s = WEIR_NEW(b->arena, sync, 1);
    const weir_act *in = b->in, *out = b->out;
    int64_t rows = in->shape.dim[0];
    weir_mem *used[9] = {in->data, out->grad};
    int k = 2;

    if (!s)
        return weir_fail_nomem(sizeof *s);
    *s = (sync){.norm = n, .run = b->run, .n = rows, .relu = b->relu, .x = in->data, .y = out->data, .dx = in->grad};
    s->dy = out->grad;
    s->places = weir_shape_count(&in->shape, INT64_MAX) / rows / n->channels;
    for (int i = 0; i < 4; i++)
        s->param[i] = b->param[i];
    WEIR_TRY(weir_layout_lanes(layout, &s->at));
    if (s->at.lanes > MOST_LANES)
        return weir_fail(WEIR_FAILED, "batch norm: a layout with blocks of %lld channels", (long long)s->at.lanes);
    WEIR_TRY(make_room(b, s));
    WEIR_TRY(weir_bind_loop(b, WEIR_FORWARD, forward, s, (weir_mem *[]){s->x, s->y, s->part, s->mean, s->spread, NULL}));
    for (weir_mem **m = (weir_mem *[]){s->part, s->mean, s->spread, NULL}; *m; m++)
        used[k++] = *m;
    if (s->dx)
        used[k++] = s->dx;
    if (s->relu)
        used[k++] = s->y;
    return weir_bind_loop(b, WEIR_BACK_WEIGHTS, back, s, used);
}
