/* batchnorm.c - every channel to mean 0 and variance 1 over the batch, then scaled and shifted;
 * evaluation uses running statistics. A relu that follows is done on the way, forward and backward.
 * The loops are ours (norm.h), over blocked layouts as they come: one look at the input for its
 * statistics, one to use them, and sums in double, which PyTorch has too and the library has not.
 * batchnorm.h has the part that several workers do together. */
#include "nn/batchnorm.h"
#include "nn/norm.h"
#include "nn/parallel.h"
#include <math.h>
#include <string.h>

static const weir_opt options[] = {{"momentum", WEIR_OPT_REAL, offsetof(weir_batchnorm, momentum),
                                    "0.1", "how much a batch changes the running statistics", 0, 1,
                                    NULL, false, false},
                                   {"eps", WEIR_OPT_REAL, offsetof(weir_batchnorm, eps), "1e-5",
                                    "added to the variance", 1e-12, 1, NULL, false, false},
                                   {"sync", WEIR_OPT_BOOL, offsetof(weir_batchnorm, sync), "no",
                                    "takes statistics over the samples of all workers", 0, 0, NULL,
                                    false, false},
                                   {0}};

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    weir_batchnorm *n = self;
    weir_shape channels = {1, {in->dim[1]}};

    (void)input;
    if (in->dims != 2 && in->dims != 4)
        return weir_fail(WEIR_INVALID,
                         "batchnorm needs rows, or pictures of three dimensions (channels, height, "
                         "width), not %d",
                         in->dims - 1);
    *out = *in;
    n->channels = in->dim[1];
    w[SCALE] = (weir_weights){"weight", channels, .fill = 1};
    w[SHIFT] = (weir_weights){"bias", channels, .fill = 0};
    w[MEAN] = (weir_weights){"running_mean", channels, .fill = 0, .still = true};
    w[VARIANCE] = (weir_weights){"running_var", channels, .fill = 1, .still = true};
    *weights = TENSORS;
    return WEIR_OK;
}

static weir_err open_norm(void *self, weir_arena *arena)
{
    weir_batchnorm *n = self;

    n->sum = WEIR_NEW(arena, double, 2 * n->channels + 1);
    n->zero = WEIR_NEW(arena, float, n->channels);
    if (!n->sum || !n->zero)
        return weir_fail_nomem((size_t)n->channels * 2 * sizeof(double));
    n->square = n->sum + n->channels;
    n->count = n->square + n->channels;
    return WEIR_OK;
}

/* ---- pieces ---- */

/* For one batch size. Arrays by channel have units * lanes places; those of padding stay zero. */
typedef struct bound {
    const weir_batchnorm *norm;
    const weir_layer_run *run;
    weir_param param[TENSORS];
    weir_layout_blocks at;
    int64_t n, places; /* samples, values a channel in each */
    bool relu;
    weir_mem *x, *y, *dx, *dy;
    weir_mem *part; /* two doubles for each lane of a unit of a sample */
    /* from forward to backward, by channel: mean, a, b of norm.h, and 1 / deviation */
    weir_mem *kept;
    float *back; /* by channel: by_dy, by_x, rest of norm.h */
    void (*loop)(const weir_norm_piece *);
} bound;

static int64_t wide(const bound *s) { return s->at.units * s->at.lanes; }
static float *kept(const bound *s, int which) { return (float *)s->kept->at + which * wide(s); }
enum { KEPT_MEAN, KEPT_A, KEPT_B, KEPT_SPREAD, KEPT };

static int64_t lanes_of(const bound *s, int64_t unit)
{
    int64_t left = s->norm->channels - unit * s->at.lanes;

    return !s->at.padded && left < s->at.lanes ? left : s->at.lanes;
}

static double *part_of(const bound *s, int64_t k)
{
    return (double *)s->part->at + 2 * k * s->at.lanes;
}

/* Unit k % units of sample k / units. */
static weir_norm_piece find_piece(const bound *s, int64_t k)
{
    int64_t unit = k % s->at.units, c = unit * s->at.lanes,
            at = k / s->at.units * s->at.sample + unit * s->at.unit;

    return (weir_norm_piece){.places = s->places,
                             .step = s->at.step,
                             .lanes = lanes_of(s, unit),
                             .relu = s->relu,
                             .x = (const float *)s->x->at + at,
                             .y = (float *)s->y->at + at,
                             .dy = s->dy ? (const float *)s->dy->at + at : NULL,
                             .dx = s->dx ? (float *)s->dx->at + at : NULL,
                             .mean = kept(s, KEPT_MEAN) + c,
                             .a = kept(s, KEPT_A) + c,
                             .b = kept(s, KEPT_B) + c,
                             .by_dy = s->back + c,
                             .by_x = s->back + wide(s) + c,
                             .rest = s->back + 2 * wide(s) + c,
                             .sum = part_of(s, k)};
}

/* One channel in plain order: its places are taken as lanes, each with the channel's own values. */
static void run_plain(const bound *s, weir_norm_piece p)
{
    enum { L = WEIR_NORM_LANES };
    const float **of[] = {&p.mean, &p.a, &p.b, &p.by_dy, &p.by_x, &p.rest};
    float same[6][L];
    double sum[2 * L], *total = p.sum;
    int64_t places = p.places, whole = places / L, rest = places % L;

    for (int i = 0; i < 6; i++) {
        for (int l = 0; l < L; l++)
            same[i][l] = **of[i];
        *of[i] = same[i];
    }
    total[0] = total[1] = 0;
    p.sum = sum;
    for (int tail = 0; tail < 2; tail++) {
        p.places = tail ? rest > 0 : whole;
        p.lanes = tail ? rest : L;
        p.step = L;
        if (!p.places)
            continue;
        memset(sum, 0, sizeof sum);
        s->loop(&p);
        for (int l = 0; l < p.lanes; l++) {
            total[0] += sum[l];
            total[1] += sum[p.lanes + l];
        }
        p.x += whole * L;
        p.y += whole * L;
        p.dy += p.dy ? whole * L : 0;
        p.dx += p.dx ? whole * L : 0;
    }
}

static void run_pieces(void *arg, int64_t from, int64_t to)
{
    const bound *s = arg;

    for (int64_t k = from; k < to; k++) {
        weir_norm_piece p = find_piece(s, k);
        if (s->at.lanes == 1)
            run_plain(s, p);
        else
            s->loop(&p);
    }
}

static void each_piece(bound *s, void (*loop)(const weir_norm_piece *))
{
    s->loop = loop;
    weir_parallel_for(s->n * s->at.units, 1, run_pieces, s);
}

/* Adds up both rows of what the pieces have. */
static void add_parts(const bound *s, double *one, double *two)
{
    memset(one, 0, (size_t)s->norm->channels * sizeof *one);
    memset(two, 0, (size_t)s->norm->channels * sizeof *two);
    for (int64_t k = 0; k < s->n * s->at.units; k++) {
        int64_t c = k % s->at.units * s->at.lanes, lanes = lanes_of(s, k % s->at.units);
        const double *sum = part_of(s, k);
        for (int64_t l = 0; l < lanes && c + l < s->norm->channels; l++) {
            one[c + l] += sum[l];
            two[c + l] += sum[lanes + l];
        }
    }
}

/* ---- forward ---- */

/* Sums of distances from kept mean and of their squares, into sum, square and count. */
static void sum_up(bound *s)
{
    each_piece(s, weir_norm_best()->sums);
    add_parts(s, s->norm->sum, s->norm->square);
    *s->norm->count = (double)(s->n * s->places);
}

/* Sums are taken of distances from a value near the channel's mean: all of them may lie far from
 * zero. One worker takes any value of the channel; several, whose sums must not depend on who has
 * which sample, take their common mean: one more look at the input. */
static weir_err choose_zero(bound *s)
{
    const weir_batchnorm *n = s->norm;
    float *zero = kept(s, KEPT_MEAN);
    const float *x = s->x->at;

    memset(kept(s, 0), 0, (size_t)(KEPT * wide(s)) * sizeof(float));
    for (int64_t c = 0; c < n->channels && !n->sync; c++)
        zero[c] = x[c / s->at.lanes * s->at.unit + c % s->at.lanes];
    if (!n->sync)
        return WEIR_OK;
    sum_up(s);
    WEIR_TRY(weir_batchnorm_mean(n, s->run));
    for (int64_t c = 0; c < n->channels; c++)
        zero[c] = (float)n->sum[c];
    return WEIR_OK;
}

/* y = (x - mean) * a + b, where the mean is a float and b makes up for what it has lost. */
static void set_coefficients(const bound *s)
{
    const weir_batchnorm *n = s->norm;
    const float *scale = s->param[SCALE].data->at, *shift = s->param[SHIFT].data->at;
    float *mean = kept(s, KEPT_MEAN), *a = kept(s, KEPT_A), *b = kept(s, KEPT_B),
          *spread = kept(s, KEPT_SPREAD);

    for (int64_t c = 0; c < n->channels; c++) {
        mean[c] = (float)n->sum[c];
        spread[c] = (float)(1 / sqrt(fmax(n->square[c] / *n->count, 0) + n->eps));
        a[c] = scale[c] * spread[c];
        b[c] = shift[c] - (float)(n->sum[c] - (double)mean[c]) * a[c];
    }
}

static weir_err forward(void *arg)
{
    bound *s = arg;
    const weir_batchnorm *n = s->norm;

    WEIR_TRY(choose_zero(s));
    sum_up(s);
    WEIR_TRY(weir_batchnorm_gather(n, s->run, kept(s, KEPT_MEAN)));
    weir_batchnorm_take(n, s->param);
    set_coefficients(s);
    each_piece(s, weir_norm_best()->apply);
    return WEIR_OK;
}

static weir_err evaluate(void *arg)
{
    bound *s = arg;
    const weir_batchnorm *n = s->norm;
    const float *mean = s->param[MEAN].data->at, *variance = s->param[VARIANCE].data->at;

    memset(kept(s, 0), 0, (size_t)(KEPT * wide(s)) * sizeof(float));
    *n->count = 1;
    for (int64_t c = 0; c < n->channels; c++) {
        n->sum[c] = mean[c];
        n->square[c] = variance[c];
    }
    set_coefficients(s);
    each_piece(s, weir_norm_best()->apply);
    return WEIR_OK;
}

/* ---- backward ---- */

/* This worker's portion: the exchange adds them up. */
static void leave_gradients(const bound *s)
{
    const weir_batchnorm *n = s->norm;
    const weir_param *scale = &s->param[SCALE], *shift = &s->param[SHIFT];
    const float *spread = kept(s, KEPT_SPREAD);

    for (int64_t c = 0; c < n->channels; c++) {
        double by_scale = n->square[c] * (double)spread[c];
        if (scale->exact) {
            ((double *)shift->exact->at)[c] += n->sum[c];
            ((double *)scale->exact->at)[c] += by_scale;
        } else {
            ((float *)shift->grad->at)[c] = (float)n->sum[c];
            ((float *)scale->grad->at)[c] = (float)by_scale;
        }
    }
}

static weir_err back(void *arg)
{
    bound *s = arg;
    const weir_batchnorm *n = s->norm;
    const float *scale = s->param[SCALE].data->at, *spread = kept(s, KEPT_SPREAD);

    each_piece(s, weir_norm_best()->back_sums);
    add_parts(s, n->sum, n->square);
    leave_gradients(s);
    *n->count = (double)(s->n * s->places);
    WEIR_TRY(weir_batchnorm_sum(n, s->run, n->sum, 2 * n->channels + 1));
    for (int64_t c = 0; c < n->channels; c++) {
        double by = (double)scale[c] * (double)spread[c];
        s->back[c] = (float)by;
        s->back[wide(s) + c] =
            (float)(-by * (double)spread[c] * (double)spread[c] * n->square[c] / *n->count);
        s->back[2 * wide(s) + c] = (float)(-by * n->sum[c] / *n->count);
    }
    if (s->dx)
        each_piece(s, weir_norm_best()->back);
    return WEIR_OK;
}

/* ---- binding ---- */

/* Rows are one picture, a place for each; in exact mode each is a picture of its own, as a piece's
 * sums are not taken in double. */
static weir_err find_lanes(const weir_bind *b, bound *s)
{
    enum { L = WEIR_NORM_LANES };
    int64_t channels = s->norm->channels;

    s->n = b->in->shape.dims == 2 && !b->exact ? 1 : b->in->shape.dim[0];
    s->places = weir_shape_count(&b->in->shape, INT64_MAX) / s->n / channels;
    if (b->in->shape.dims == 4)
        WEIR_TRY(weir_layout_channels(b->in->layout, &s->at));
    else
        s->at = (weir_layout_blocks){.lanes = L,
                                     .units = (channels + L - 1) / L,
                                     .sample = channels,
                                     .unit = L,
                                     .step = channels};
    if (s->at.lanes > L)
        return weir_fail(WEIR_FAILED, "batch norm: a layout with blocks of %lld channels",
                         (long long)s->at.lanes);
    return WEIR_OK;
}

static weir_err make_room(const weir_bind *b, bound *s)
{
    size_t floats = (size_t)wide(s) * sizeof(float);

    WEIR_TRY(weir_bind_out(b, b->in->layout));
    WEIR_TRY(weir_bind_mem(b, (size_t)(2 * s->n * wide(s)) * sizeof(double), &s->part));
    WEIR_TRY(weir_bind_mem(b, KEPT * floats, &s->kept));
    s->back = WEIR_NEW(b->arena, float, 3 * wide(s));
    return s->back ? WEIR_OK : weir_fail_nomem(3 * floats);
}

static weir_err bind_batchnorm(void *self, const weir_bind *b)
{
    bound *s = WEIR_NEW(b->arena, bound, 1);
    weir_bind training = *b, evaluating = *b;

    if (!s)
        return weir_fail_nomem(sizeof *s);
    training.only = WEIR_PASS_TRAINING;
    evaluating.only = WEIR_PASS_EVALUATING;
    *s = (bound){.norm = self, .run = b->run, .relu = b->relu};
    for (int k = 0; k < TENSORS; k++)
        s->param[k] = b->param[k];
    WEIR_TRY(find_lanes(b, s));
    WEIR_TRY(make_room(b, s));
    s->x = b->in->data;
    s->y = b->out->data;
    s->dx = b->in->grad;
    s->dy = b->out->grad;
    WEIR_TRY(weir_bind_loop(&training, WEIR_LAYER_FORWARD, forward, s,
                            (weir_mem *[]){s->x, s->y, s->part, s->kept, NULL}));
    WEIR_TRY(weir_bind_loop(&evaluating, WEIR_LAYER_FORWARD, evaluate, s,
                            (weir_mem *[]){s->x, s->y, s->kept, NULL}));
    return weir_bind_loop(b, WEIR_LAYER_BACK_WEIGHTS, back, s,
                          (weir_mem *[]){s->x, s->dy, s->part, s->kept, s->dx, NULL});
}

static bool mixes(const void *self) { return !((const weir_batchnorm *)self)->sync; }

const weir_layer weir_layer_batchnorm = {
    .plug = {"batchnorm", "channels to mean 0 and variance 1 over the batch, scaled and shifted",
             sizeof(weir_batchnorm), options},
    .does_relu = true,
    .does_back = true,
    .exact = true,
    .mixes = mixes,
    .shape = shape,
    .open = open_norm,
    .bind = bind_batchnorm,
    .idle = weir_batchnorm_idle,
};
