/* batchnorm.c - every channel to mean 0 and variance 1 over the batch, then scaled and shifted; evaluation uses running
 * statistics. A relu that follows is done on the way, forward and backward. The loops are ours (norm.h), over blocked layouts as
 * they come: one look at the input for its statistics, one to use them, and sums in double, which PyTorch has too and the library
 * has not.
 *
 * With sync=yes the statistics are those of all workers: forward sums over them twice (values; then squared distances from the
 * common mean, which keeps digits that a sum of squares would lose), backward once. Sums run over the samples in order: however
 * many threads there are, and nearly however the samples lie on workers, they come out the same. */
#include "nn/layer.h"
#include "nn/norm.h"
#include "nn/share.h"
#include <math.h>
#include <string.h>

typedef struct batchnorm {
    double momentum, eps;
    bool sync;
    int64_t channels;
    /* What is summed over workers, by channel; the three lie behind each other: forward sums, squares and count, then apart;
     * backward sums and squares. */
    double *sum, *square, *count, *apart;
} batchnorm;

/* The tensors, as declared. */
enum { SCALE, SHIFT, MEAN, VARIANCE, TENSORS };

static const weir_opt options[] = {
    {"momentum", WEIR_OPT_REAL, offsetof(batchnorm, momentum), "0.1", "how much a batch changes the running statistics", 0, 1,
     NULL, false, false},
    {"eps", WEIR_OPT_REAL, offsetof(batchnorm, eps), "1e-5", "added to the variance", 1e-12, 1, NULL, false, false},
    {"sync", WEIR_OPT_BOOL, offsetof(batchnorm, sync), "no", "takes statistics over the samples of all workers", 0, 0, NULL,
     false, false},
    {0}};

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in, weir_shape *out, weir_weights *w,
                      int *weights)
{
    batchnorm *n = self;
    weir_shape channels = {1, {in->dim[1]}};

    (void)input;
    if (in->dims != 2 && in->dims != 4)
        return weir_fail(WEIR_INVALID, "batchnorm needs rows, or pictures of three dimensions (channels, height, width), not %d",
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
    batchnorm *n = self;

    if (!(n->sum = WEIR_NEW(arena, double, 3 * n->channels + 1)))
        return weir_fail_nomem((size_t)n->channels * 3 * sizeof(double));
    n->square = n->sum + n->channels;
    n->count = n->square + n->channels;
    n->apart = n->count + 1;
    return WEIR_OK;
}

/* ---- sums over workers ---- */

static weir_err sum_workers(const batchnorm *n, const weir_run *run, double *x, int64_t count)
{
    return n->sync ? weir_run_sum(run, x, (size_t)count) : WEIR_OK;
}

/* What this worker has is in sum, square (around its own mean) and count: that of all workers, with the mean in sum. */
static weir_err gather(const batchnorm *n, const weir_run *run)
{
    double mine = *n->count;

    for (int64_t c = 0; c < n->channels; c++)
        n->apart[c] = mine > 0 ? n->sum[c] / mine : 0;
    WEIR_TRY(sum_workers(n, run, n->sum, 2 * n->channels + 1));
    for (int64_t c = 0; c < n->channels; c++) {
        n->sum[c] = *n->count > 0 ? n->sum[c] / *n->count : 0;
        n->apart[c] = mine * (n->apart[c] - n->sum[c]) * (n->apart[c] - n->sum[c]);
    }
    WEIR_TRY(sum_workers(n, run, n->apart, n->channels));
    for (int64_t c = 0; n->sync && c < n->channels; c++)
        n->square[c] += n->apart[c];
    return WEIR_OK;
}

/* Running statistics take in those that gather left. */
static void take(const batchnorm *n, const weir_param *w)
{
    float *mean = w[MEAN].grad->at, *variance = w[VARIANCE].grad->at;
    double count = *n->count;

    for (int64_t c = 0; c < n->channels && count > 0; c++) {
        mean[c] = (float)((1 - n->momentum) * mean[c] + n->momentum * n->sum[c]);
        variance[c] = (float)((1 - n->momentum) * variance[c] + n->momentum * n->square[c] / (count > 1 ? count - 1 : 1));
    }
}

/* A worker without samples takes part in the sums. */
static weir_err idle(void *self, const weir_run *run, weir_when phase, const weir_param *param)
{
    const batchnorm *n = self;

    if (!n->sync || phase == WEIR_BACK_DATA)
        return WEIR_OK;
    memset(n->sum, 0, (size_t)(2 * n->channels + 1) * sizeof *n->sum);
    if (phase == WEIR_BACK_WEIGHTS)
        return sum_workers(n, run, n->sum, 2 * n->channels + 1);
    WEIR_TRY(gather(n, run));
    take(n, param);
    return WEIR_OK;
}

/* ---- pieces ---- */

/* For one batch size. Arrays by channel have units * lanes places; those of padding stay zero. */
typedef struct bound {
    const batchnorm *norm;
    const weir_run *run;
    weir_param param[TENSORS];
    weir_lanes at;
    int64_t n, places; /* samples, values a channel in each */
    bool relu;
    weir_mem *x, *y, *dx, *dy;
    weir_mem *part; /* two doubles for each lane of a unit of a sample */
    weir_mem *kept; /* from forward to backward, by channel: mean, a, b of norm.h, and 1 / deviation */
    float *back;    /* by channel: by_dy, by_x, rest of norm.h */
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

static double *part_of(const bound *s, int64_t k) { return (double *)s->part->at + 2 * k * s->at.lanes; }

/* Unit k % units of sample k / units. */
static weir_norm_piece find_piece(const bound *s, int64_t k)
{
    int64_t unit = k % s->at.units, c = unit * s->at.lanes, at = k / s->at.units * s->at.sample + unit * s->at.unit;

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
    weir_share(s->n * s->at.units, 1, run_pieces, s);
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

/* Sums are taken of distances from some value of the channel: all of them may lie far from zero. */
static void choose_zero(const bound *s)
{
    float *mean = kept(s, KEPT_MEAN);
    const float *x = s->x->at;

    memset(kept(s, 0), 0, (size_t)(KEPT * wide(s)) * sizeof(float));
    for (int64_t c = 0; c < s->norm->channels; c++)
        mean[c] = x[c / s->at.lanes * s->at.unit + c % s->at.lanes];
}

/* y = (x - mean) * a + b, where the mean is a float and b makes up for what it has lost. */
static void set_coefficients(const bound *s)
{
    const batchnorm *n = s->norm;
    const float *scale = s->param[SCALE].data->at, *shift = s->param[SHIFT].data->at;
    float *mean = kept(s, KEPT_MEAN), *a = kept(s, KEPT_A), *b = kept(s, KEPT_B), *spread = kept(s, KEPT_SPREAD);

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
    const batchnorm *n = s->norm;
    double count = (double)(s->n * s->places);
    const float *zero = kept(s, KEPT_MEAN);

    choose_zero(s);
    each_piece(s, weir_norm_best()->sums);
    add_parts(s, n->sum, n->square);
    for (int64_t c = 0; c < n->channels; c++) {
        n->square[c] -= n->sum[c] * n->sum[c] / count;
        n->sum[c] += count * (double)zero[c];
    }
    *n->count = count;
    WEIR_TRY(gather(n, s->run));
    take(n, s->param);
    set_coefficients(s);
    each_piece(s, weir_norm_best()->apply);
    return WEIR_OK;
}

static weir_err evaluate(void *arg)
{
    bound *s = arg;
    const batchnorm *n = s->norm;
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

static weir_err back(void *arg)
{
    bound *s = arg;
    const batchnorm *n = s->norm;
    const float *scale = s->param[SCALE].data->at, *spread = kept(s, KEPT_SPREAD);
    float *d_scale = s->param[SCALE].grad->at, *d_shift = s->param[SHIFT].grad->at;

    each_piece(s, weir_norm_best()->back_sums);
    add_parts(s, n->sum, n->square);
    for (int64_t c = 0; c < n->channels; c++) { /* this worker's share: the exchange adds them up */
        d_shift[c] = (float)n->sum[c];
        d_scale[c] = (float)(n->square[c] * (double)spread[c]);
    }
    *n->count = (double)(s->n * s->places);
    WEIR_TRY(sum_workers(n, s->run, n->sum, 2 * n->channels + 1));
    for (int64_t c = 0; c < n->channels; c++) {
        double by = (double)scale[c] * (double)spread[c];
        s->back[c] = (float)by;
        s->back[wide(s) + c] = (float)(-by * (double)spread[c] * (double)spread[c] * n->square[c] / *n->count);
        s->back[2 * wide(s) + c] = (float)(-by * n->sum[c] / *n->count);
    }
    if (s->dx)
        each_piece(s, weir_norm_best()->back);
    return WEIR_OK;
}

/* ---- binding ---- */

/* Rows are one picture: a place for each. */
static weir_err find_lanes(const weir_bind *b, bound *s)
{
    enum { L = WEIR_NORM_LANES };
    int64_t channels = s->norm->channels;

    s->n = b->in->shape.dims == 2 ? 1 : b->in->shape.dim[0];
    s->places = weir_shape_count(&b->in->shape, INT64_MAX) / s->n / channels;
    if (b->in->shape.dims == 4)
        WEIR_TRY(weir_layout_lanes(b->in->layout, &s->at));
    else
        s->at = (weir_lanes){.lanes = L, .units = (channels + L - 1) / L, .unit = L, .step = channels};
    if (s->at.lanes > L)
        return weir_fail(WEIR_FAILED, "batch norm: a layout with blocks of %lld channels", (long long)s->at.lanes);
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
    training.only = WEIR_TRAINING;
    evaluating.only = WEIR_EVALUATING;
    *s = (bound){.norm = self, .run = b->run, .relu = b->relu};
    for (int k = 0; k < TENSORS; k++)
        s->param[k] = b->param[k];
    WEIR_TRY(find_lanes(b, s));
    WEIR_TRY(make_room(b, s));
    s->x = b->in->data;
    s->y = b->out->data;
    s->dx = b->in->grad;
    s->dy = b->out->grad;
    WEIR_TRY(weir_bind_loop(&training, WEIR_FORWARD, forward, s, (weir_mem *[]){s->x, s->y, s->part, s->kept, NULL}));
    WEIR_TRY(weir_bind_loop(&evaluating, WEIR_FORWARD, evaluate, s, (weir_mem *[]){s->x, s->y, s->kept, NULL}));
    return weir_bind_loop(b, WEIR_BACK_WEIGHTS, back, s, (weir_mem *[]){s->x, s->dy, s->part, s->kept, s->dx, NULL});
}

const weir_layer weir_layer_batchnorm = {
    .plug = {"batchnorm", "channels to mean 0 and variance 1 over the batch, scaled and shifted", sizeof(batchnorm), options},
    .does_relu = true,
    .does_back = true,
    .shape = shape,
    .open = open_norm,
    .bind = bind_batchnorm,
    .idle = idle,
};
