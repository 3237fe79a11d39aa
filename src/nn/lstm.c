/* lstm.c - long short-term memory: one or several on top of each other, over the places of a
 * window, with the state carried from window to window of a stream. Weights are as PyTorch has them
 * (gates i, f, g, o), but for one bias vector where it has two. */
#include "nn/lstm.h"
#include "nn/kernels.h"
#include <math.h>
#include <string.h>

static const weir_opt options[] = {{"out", WEIR_OPT_INT, offsetof(weir_lstm, out), NULL,
                                    "how many cells, and outputs", 1, 1 << 24, NULL, false, false},
                                   {"layers", WEIR_OPT_INT, offsetof(weir_lstm, layers), "1",
                                    "so many on top of each other", 1, WEIR_LSTM_LEVELS, NULL,
                                    false, false},
                                   {0}};

/* ---- shapes ---- */

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    static const char *const name[WEIR_LSTM_LEVELS][3] = {
        {"weight_ih_l0", "weight_hh_l0", "bias_l0"}, {"weight_ih_l1", "weight_hh_l1", "bias_l1"},
        {"weight_ih_l2", "weight_hh_l2", "bias_l2"}, {"weight_ih_l3", "weight_hh_l3", "bias_l3"},
        {"weight_ih_l4", "weight_hh_l4", "bias_l4"}, {"weight_ih_l5", "weight_hh_l5", "bias_l5"},
        {"weight_ih_l6", "weight_hh_l6", "bias_l6"}, {"weight_ih_l7", "weight_hh_l7", "bias_l7"}};
    const weir_lstm *l = self;
    float bound = (float)(1 / sqrt((double)l->out));

    (void)input;
    if (in->dims != 3)
        return weir_fail(
            WEIR_INVALID,
            "lstm needs rows of numbers, place by place, and not %d dimensions a sample",
            in->dims - 1);
    *out = *in;
    out->dim[2] = l->out;
    *weights = (int)(3 * l->layers);
    for (int k = 0; k < l->layers; k++, w += 3) {
        w[0] = (weir_weights){name[k][0], {2, {4 * l->out, k ? l->out : in->dim[2]}},
                              true,       bound,
                              0,          false,
                              0};
        w[1] = (weir_weights){name[k][1], {2, {4 * l->out, l->out}}, true, bound, 0, false, 0};
        /* as far spread as the sum of two */
        w[2] = (weir_weights){name[k][2], {1, {4 * l->out}}, false, bound * sqrtf(2), 0, false, 0};
    }
    return WEIR_OK;
}

/* ---- carried state ---- */

static size_t per_stream(const weir_lstm *l) { return (size_t)(l->layers * 2 * l->out); }

/* Room for the state of `count` samples; what was there stays. */
static weir_err grow(const weir_lstm *l, weir_arena *arena, uint64_t count, float **x, uint64_t old)
{
    float *more = weir_alloc_many(arena, count, per_stream(l) * sizeof *more);

    if (!more)
        return weir_fail_nomem(count * per_stream(l) * sizeof *more);
    if (old)
        memcpy(more, *x, old * per_stream(l) * sizeof *more);
    *x = more;
    return WEIR_OK;
}

/* Room for so many streams, the first `keep` of them as they are. */
static weir_err grow_streams(weir_lstm *l, weir_arena *arena, uint64_t count, uint64_t keep)
{
    bool *wrote = WEIR_NEW(arena, bool, count);

    if (!wrote)
        return weir_fail_nomem(count);
    WEIR_TRY(grow(l, arena, count, &l->now, keep));
    WEIR_TRY(grow(l, arena, count, &l->next, keep));
    if (keep)
        memcpy(wrote, l->wrote, keep * sizeof *wrote);
    l->wrote = wrote;
    l->room = count;
    return WEIR_OK;
}

/* So many, those behind `keep` at zero. Where members come and go this is done again and again:
 * only more than there ever were cost memory. */
static weir_err make_streams(weir_lstm *l, weir_arena *arena, uint64_t count, uint64_t keep)
{
    size_t fresh = (size_t)(count - keep);

    if (count > l->room)
        WEIR_TRY(grow_streams(l, arena, count, keep));
    memset(l->now + keep * per_stream(l), 0, fresh * per_stream(l) * sizeof *l->now);
    memset(l->next + keep * per_stream(l), 0, fresh * per_stream(l) * sizeof *l->next);
    memset(l->wrote + keep, 0, fresh * sizeof *l->wrote);
    l->count = count;
    return WEIR_OK;
}

static weir_err streams(void *self, weir_arena *arena, uint64_t first, uint64_t count,
                        uint64_t total)
{
    weir_lstm *l = self;

    WEIR_TRY(make_streams(l, arena, count, 0));
    l->first = first;
    l->total = total;
    l->streams_known = true;
    return WEIR_OK;
}

/* For a batch of n. */
static weir_err make_room(weir_lstm *l, weir_arena *arena, int64_t n)
{
    if (!l->streams_known && (uint64_t)n > l->count) {
        WEIR_TRY(make_streams(l, arena, (uint64_t)n, l->count));
        l->total = l->count;
    }
    if (n <= l->tests)
        return WEIR_OK;
    WEIR_TRY(grow(l, arena, (uint64_t)n, &l->test, (uint64_t)l->tests));
    l->tests = n;
    return WEIR_OK;
}

static void commit(void *self)
{
    weir_lstm *l = self;
    size_t n = per_stream(l);

    for (uint64_t i = 0; i < l->count; i++)
        if (l->wrote[i])
            memcpy(l->now + i * n, l->next + i * n, n * sizeof *l->now);
    memset(l->wrote, 0, l->count * sizeof *l->wrote);
}

static weir_err state(void *self, weir_io *io)
{
    weir_lstm *l = self;
    size_t n = per_stream(l);
    weir_io_piece piece = {l->now, l->first * n, l->count * n, l->total * n, WEIR_KEEP_STREAM};

    return weir_io_range(io, "carried", &piece);
}

/* ---- the plan ---- */

static weir_err as_rows(const weir_bind *b, int64_t rows, int64_t width, const weir_layout **layout)
{
    return weir_layout_plain(b->dnn, &(weir_shape){2, {rows, width}}, layout);
}

/* One level in a plan: its loop over time, and the large products before and behind it. */
typedef struct level {
    weir_lstm_bound *loop;
    weir_mem *x, *dx; /* input, and its gradient */
    const weir_layout *in, *out, *wide;
    weir_dense_desc input, state;
    weir_dnn_op *forward, *forward_state;
    const weir_param *param;
} level;

static weir_err bind_mems(const weir_bind *b, level *v)
{
    weir_lstm_bound *s = v->loop;
    size_t row = (size_t)s->self->out * sizeof(float), n = (size_t)s->n,
           rows = n * (size_t)s->length;

    WEIR_TRY(weir_bind_mem(b, 4 * rows * row, &s->gates));
    WEIR_TRY(weir_bind_mem(b, rows * row, &s->c));
    WEIR_TRY(weir_bind_mem(b, rows * row, &s->before));
    WEIR_TRY(weir_bind_mem(b, n * row, &s->begin));
    WEIR_TRY(weir_bind_mem(b, 2 * n * row, &s->turns));
    WEIR_TRY(weir_bind_mem(b, 8 * n * row, &s->dturns));
    return weir_bind_mem(b, n * row, &s->dc);
}

static weir_err bind_forward(const weir_bind *b, level *v)
{
    const weir_lstm_bound *s = v->loop;
    weir_bind_use use[] = {{WEIR_DNN_ARG_SRC, v->x, v->in},
                           {WEIR_DNN_ARG_WEIGHTS, v->param[0].data, v->param[0].plain},
                           {WEIR_DNN_ARG_BIAS, v->param[2].data, v->param[2].plain},
                           {WEIR_DNN_ARG_DST, s->gates, v->wide}};
    weir_mem *used[] = {s->gates, s->c, s->before, s->begin, s->turns, s->y, NULL};

    WEIR_TRY(weir_dnn_dense(b->dnn, WEIR_DNN_DO_FORWARD, &v->input, NULL, &v->forward));
    WEIR_TRY(weir_dnn_dense(b->dnn, WEIR_DNN_DO_FORWARD, &v->state, NULL, &v->forward_state));
    WEIR_TRY(weir_bind_op(b, WEIR_LAYER_FORWARD, v->forward, use, 4));
    return weir_bind_loop(b, WEIR_LAYER_FORWARD, weir_lstm_forward, v->loop, used);
}

static weir_err bind_weights(const weir_bind *b, level *v)
{
    const weir_lstm_bound *s = v->loop;
    weir_bind_use input[] = {{WEIR_DNN_ARG_SRC, v->x, v->in},
                             {WEIR_DNN_ARG_DIFF_DST, s->gates, v->wide},
                             {WEIR_DNN_ARG_DIFF_WEIGHTS, v->param[0].grad, v->param[0].plain},
                             {WEIR_DNN_ARG_DIFF_BIAS, v->param[2].grad, v->param[2].plain}};
    weir_bind_use state[] = {{WEIR_DNN_ARG_SRC, s->before, v->out},
                             {WEIR_DNN_ARG_DIFF_DST, s->gates, v->wide},
                             {WEIR_DNN_ARG_DIFF_WEIGHTS, v->param[1].grad, v->param[1].plain}};
    weir_mem *used[] = {s->gates, s->c, s->begin, s->dy, s->dturns, s->dc, NULL};
    weir_dnn_op *op;

    WEIR_TRY(weir_bind_loop(b, WEIR_LAYER_BACK_WEIGHTS, weir_lstm_back, v->loop, used));
    WEIR_TRY(weir_dnn_dense(b->dnn, WEIR_DNN_DO_BACK_WEIGHTS, &v->input, v->forward, &op));
    WEIR_TRY(weir_bind_op(b, WEIR_LAYER_BACK_WEIGHTS, op, input, 4));
    WEIR_TRY(weir_dnn_dense(b->dnn, WEIR_DNN_DO_BACK_WEIGHTS, &v->state, v->forward_state, &op));
    return weir_bind_op(b, WEIR_LAYER_BACK_WEIGHTS, op, state, 3);
}

static weir_err bind_data(const weir_bind *b, weir_layer_phase when, level *v)
{
    weir_bind_use use[] = {{WEIR_DNN_ARG_DIFF_DST, v->loop->gates, v->wide},
                           {WEIR_DNN_ARG_WEIGHTS, v->param[0].data, v->param[0].plain},
                           {WEIR_DNN_ARG_DIFF_SRC, v->dx, v->in}};
    weir_dnn_op *op;

    WEIR_TRY(weir_dnn_dense(b->dnn, WEIR_DNN_DO_BACK_DATA, &v->input, v->forward, &op));
    return weir_bind_op(b, when, op, use, 3);
}

/* Level k reads the one below it, or the input; the highest writes the output. */
static weir_err make_level(weir_lstm *l, const weir_bind *b, int k, level *v)
{
    weir_lstm_bound *s = WEIR_NEW(b->arena, weir_lstm_bound, 1);
    int64_t n = b->in->shape.dim[0], length = b->in->shape.dim[1], rows = n * length,
            in = k ? l->out : b->in->shape.dim[2];
    bool top = k == l->layers - 1;

    if (!s)
        return weir_fail_nomem(sizeof *s);
    *v = (level){.loop = s, .param = b->param + 3 * k};
    v->input = (weir_dense_desc){.rows = rows, .in = in, .out = 4 * l->out, .bias = true};
    v->state = (weir_dense_desc){.rows = rows, .in = l->out, .out = 4 * l->out};
    v->x = k ? v[-1].loop->y : b->in->data;
    v->dx = k ? v[-1].loop->dy : b->in->grad;
    *s = (weir_lstm_bound){
        .self = l, .run = b->run, .level = k, .n = n, .length = length, .weight = v->param[1].data};
    WEIR_TRY(as_rows(b, rows, in, &v->in));
    WEIR_TRY(as_rows(b, rows, l->out, &v->out));
    WEIR_TRY(as_rows(b, rows, 4 * l->out, &v->wide));
    s->y = b->out->data;
    s->dy = b->out->grad;
    if (!top) {
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(v->out), &s->y));
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(v->out), &s->dy));
    }
    return bind_mems(b, v);
}

/* Weights in units, common to all batch sizes. */
static weir_err make_units(weir_lstm *l, weir_arena *arena)
{
    size_t floats = (size_t)(weir_units(l->out) * WEIR_UNIT * 4 * l->out);

    for (int k = 0; k < l->layers; k++) {
        weir_lstm_level *v = &l->level[k];
        if (!v->ahead && (!(v->ahead = WEIR_NEW(arena, float, floats)) ||
                          !(v->back = WEIR_NEW(arena, float, floats))))
            return weir_fail_nomem(floats * sizeof(float));
    }
    return WEIR_OK;
}

static weir_err bind_lstm(void *self, const weir_bind *b)
{
    weir_lstm *l = self;
    level level[WEIR_LSTM_LEVELS];
    const weir_layout *plain;

    WEIR_TRY(make_units(l, b->arena));
    WEIR_TRY(make_room(l, b->arena, b->in->shape.dim[0]));
    WEIR_TRY(weir_layout_plain(b->dnn, &b->out->shape, &plain));
    WEIR_TRY(weir_bind_out(b, plain));
    for (int k = 0; k < l->layers; k++) {
        WEIR_TRY(make_level(l, b, k, &level[k]));
        WEIR_TRY(bind_forward(b, &level[k]));
    }
    for (int k = (int)l->layers - 1; k >= 0; k--) {
        WEIR_TRY(bind_weights(b, &level[k]));
        if (level[k].dx)
            WEIR_TRY(bind_data(b, k ? WEIR_LAYER_BACK_WEIGHTS : WEIR_LAYER_BACK_DATA, &level[k]));
    }
    return WEIR_OK;
}

const weir_layer weir_layer_lstm = {
    .plug = {"lstm",
             "long short-term memory over the places of a window, its state carried to the next",
             sizeof(weir_lstm), options},
    .plain = true,
    .shape = shape,
    .bind = bind_lstm,
    .commit = commit,
    .state = state,
    .streams = streams,
};
