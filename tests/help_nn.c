/* help_nn.c - see help_nn.h. */
#include "help_nn.h"
#include "core/vec.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- numbers ---- */

uint32_t hash_bits(uint32_t stream, uint32_t i)
{
    uint32_t h = (i + 1) * 0x9E3779B1u + stream * 0x85EBCA77u;

    h ^= h >> 16;
    h *= 0x21F0AAADu;
    h ^= h >> 15;
    h *= 0x735A2D97u;
    return h ^ h >> 15;
}

float hash_value(uint32_t stream, uint32_t i)
{
    return (float)((double)(hash_bits(stream, i) >> 8) / (1 << 23) - 1);
}

void hash_fill(float *x, size_t n, uint32_t stream, float divisor)
{
    for (size_t i = 0; i < n; i++)
        x[i] = hash_value(stream, (uint32_t)i) / divisor;
}

void hash_labels(int32_t *label, int n, uint32_t stream, int classes)
{
    for (int i = 0; i < n; i++)
        label[i] = (int32_t)(hash_bits(stream, (uint32_t)i) % (uint32_t)classes);
}

/* What scales and shifts a norm. */
static void as_of_norm(float *x, size_t n, bool bias)
{
    for (size_t i = 0; i < n; i++)
        x[i] = bias ? 1.5f + x[i] / 2 : 1 + x[i] / 4;
}

void hash_weights(const weir_graph *g, float *param)
{
    uint32_t stream = HASH_WEIGHT;

    for (int i = 0; i < g->nodes; i++) {
        const weir_node *node = &g->node[i];
        int64_t fan = 1;
        for (int d = 1; node->weights && d < node->weight[0].shape.dims; d++)
            fan *= node->weight[0].shape.dim[d];
        for (int k = 0; k < node->weights; k++) {
            const weir_tensor *t = &g->tensor[node->tensor[k]];
            hash_fill(param + t->at, t->n, stream++, sqrtf((float)fan));
            if (node->weight[0].shape.dims == 1)
                as_of_norm(param + t->at, t->n, k > 0);
        }
    }
}

double relative(const float *a, const float *b, size_t n)
{
    double apart = 0, whole = 0;

    for (size_t i = 0; i < n; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        whole += (double)b[i] * b[i];
    }
    return whole > 0 ? sqrt(apart / whole) : sqrt(apart);
}

char *read_source(const char *name, size_t *n)
{
    char path[4096], *bytes;
    FILE *f;

    snprintf(path, sizeof path, WEIR_SOURCE_DIR "/%s", name);
    f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    bytes = calloc(1, 1 << 20);
    *n = fread(bytes, 1, (1 << 20) - 1, f);
    fclose(f);
    return bytes;
}

float *find_numbers(const char *from, size_t bytes, const char *name, size_t *n)
{
    uint32_t len, count;

    for (size_t at = 0; at + 4 <= bytes; at += count * sizeof(float)) {
        const char *word = from + at + 4;
        memcpy(&len, from + at, 4);
        at += 4 + len;
        memcpy(&count, from + at, 4);
        at += 4;
        if (strlen(name) == len && !memcmp(word, name, len)) {
            float *copy = malloc(count * sizeof *copy + 1);
            memcpy(copy, from + at, count * sizeof *copy);
            return *n = count, copy;
        }
    }
    return NULL;
}

/* A sketch is the norm, sums with random signs, which tell the distance within a fifth or so, and
 * some elements, which tell less: they count half. */
enum { SUMS = 32, SOME = 16 };

static double apart_from_sketch(const float *sketch, size_t floats, const float *x, size_t n)
{
    size_t stride = n / SOME ? n / SOME : 1, some = floats - 1 - SUMS;
    double sum[SUMS] = {0}, apart = 0, apart_some = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t signs = hash_bits(HASH_SIGN, (uint32_t)i);
        for (int j = 0; j < SUMS; j++)
            sum[j] += signs >> j & 1 ? -(double)x[i] : (double)x[i];
    }
    for (int j = 0; j < SUMS; j++)
        apart += (sum[j] - sketch[1 + j]) * (sum[j] - sketch[1 + j]) / SUMS;
    for (size_t i = 0; i < some; i++) {
        double d = (double)x[i * stride] - sketch[1 + SUMS + i];
        apart_some += d * d * (double)n / (double)some;
    }
    return sqrt(fmax(apart, apart_some / 4)) / (sketch[0] > 0 ? sketch[0] : 1);
}

float *saved_numbers(const char *name, size_t *n)
{
    static const char *const files[] = {"tests/torch/numbers", "tests/torch/sequence_numbers"};
    float *found = NULL;

    for (int i = 0; i < 2 && !found; i++) {
        size_t bytes;
        char *file = read_source(files[i], &bytes);
        found = find_numbers(file, bytes, name, n);
        free(file);
    }
    return found;
}

double apart_from(const char *name, const float *x, size_t n)
{
    char full[160];
    size_t count;
    float *theirs = saved_numbers(name, &count);
    double apart;

    if (theirs && count != n)
        fail_msg("%s has %zu elements here and %zu in tests/torch/numbers", name, n, count);
    apart = theirs ? relative(x, theirs, n) : 0;
    if (!theirs) {
        snprintf(full, sizeof full, "%s~", name);
        if (!(theirs = saved_numbers(full, &count)))
            fail_msg("tests/torch has no numbers of %s: run make_numbers.py, or sequence.py", name);
        apart = apart_from_sketch(theirs, count, x, n);
    }
    free(theirs);
    return apart;
}

/* ---- the rig ---- */

void ok(weir_err err)
{
    if (err)
        fail_msg("%s", weir_why_text());
}

static float *floats(rig *r, size_t n)
{
    float *x = WEIR_NEW(r->arena, float, n);

    assert_non_null(x);
    return x;
}

/* An op between the plan's memory, in whatever layout, and a plain vector of ours. */
static void make_mover(rig *r, const weir_act *a, weir_mem *theirs, float *ours, bool out,
                       weir_dnn_op **op)
{
    const weir_layout *plain;
    weir_mem *m;

    ok(weir_layout_plain(r->engine.dnn, &a->shape, &plain));
    ok(weir_mem_new(r->engine.dnn, weir_layout_bytes(plain), &m));
    weir_mem_point(m, ours);
    ok(weir_dnn_reorder(r->engine.dnn, out ? a->layout : plain, out ? plain : a->layout, op));
    ok(weir_dnn_op_tie(*op, WEIR_DNN_ARG_SRC, out ? theirs : m));
    ok(weir_dnn_op_tie(*op, WEIR_DNN_ARG_DST, out ? m : theirs));
    ok(weir_dnn_op_whole(*op));
}

static void place_vectors(rig *r)
{
    const weir_graph *g = r->graph;

    for (int i = 0; i < g->tensors; i++) {
        weir_mem_point(r->engine.param[i].data, r->param + g->tensor[i].at);
        weir_mem_point(r->engine.param[i].grad, r->grad + g->tensor[i].at);
        if (r->exact)
            weir_mem_point(r->engine.param[i].exact, r->exact + g->tensor[i].at);
    }
    for (int i = 0; i < g->stills; i++) {
        weir_mem_point(r->engine.still[i].data, r->still + g->still[i].at);
        weir_mem_point(r->engine.still[i].grad, r->next + g->still[i].at);
        for (size_t k = 0; strstr(g->still[i].name, "var") && k < g->still[i].n; k++)
            r->still[g->still[i].at + k] = 1;
    }
    weir_engine_plan_attach(r->plan, weir_alloc(r->arena, r->plan->bytes));
    weir_mem_point(r->plan->input.data, g->input.tokens ? (void *)r->token : r->x);
    weir_mem_point(r->plan->input.grad, r->dx);
}

/* As many as the last layer with an out= has outputs. */
static int64_t count_classes(const char *text, int64_t classes)
{
    for (const char *p = text; (p = strstr(p, "out=")); p += 4)
        classes = atoll(p + 4);
    return classes;
}

static void make_data(rig *r, int batch, const weir_model_input *in)
{
    int labels = batch * (in->kind == WEIR_SCORE_TOKENS ? (int)in->dim[0] : 1),
        values = batch * (int)in->classes;

    r->x = floats(r, r->ins);
    r->token = WEIR_NEW(r->arena, int32_t, r->ins);
    r->label = WEIR_NEW(r->arena, int32_t, labels);
    r->value = floats(r, (size_t)values);
    hash_fill(r->x, r->ins, HASH_X, 1);
    hash_labels(r->token, (int)r->ins, HASH_X, (int)in->classes);
    hash_labels(r->label, labels, HASH_LABEL, (int)in->classes);
    hash_fill(r->value, (size_t)values, HASH_LABEL, 1);
}

static void open_rig(rig *r, const char *layers, int batch, const weir_model_input *in, bool exact)
{
    char text[512];
    const weir_act *out;

    *r = (rig){.arena = weir_arena_new(), .scale = 1 / (float)batch};
    snprintf(text, sizeof text, "%s", layers);
    for (char *p = text; *p; p++)
        *p = *p == ';' ? '\n' : *p;
    weir_netfile_source source = {"case", text, strlen(text), NULL};
    ok(weir_graph_read(&source, in, false, r->arena, &r->graph));
    ok(weir_engine_open(r->graph, r->arena, &r->engine));
    if (exact) {
        ok(weir_engine_exact(&r->engine));
        assert_non_null(r->exact = WEIR_NEW(r->arena, double, r->graph->params));
    }
    ok(weir_engine_plan_make(&r->engine, batch, true, &r->plan));
    out = &r->plan->stage[r->graph->nodes - 1].out;
    r->ins = weir_layout_bytes(r->plan->input.layout) / sizeof(float);
    r->outs = out->data ? (size_t)weir_shape_count(&out->shape, INT64_MAX) : 1;
    r->dx = floats(r, r->ins);
    r->y = floats(r, r->outs);
    r->dy = floats(r, r->outs);
    r->param = floats(r, r->graph->params);
    r->grad = floats(r, r->graph->params);
    r->still = floats(r, r->graph->still_floats);
    r->next = floats(r, r->graph->still_floats);
    make_data(r, batch, in);
    hash_fill(r->dy, r->outs, HASH_OUT_GRAD, 1);
    hash_weights(r->graph, r->param);
    place_vectors(r);
    if (out->data) {
        make_mover(r, out, out->data, r->y, true, &r->take);
        make_mover(r, out, out->grad, r->dy, false, &r->give);
    }
}

void rig_open_data(rig *r, const char *layers, int batch, const weir_model_input *in)
{
    open_rig(r, layers, batch, in, false);
}
void rig_open_exact(rig *r, const char *layers, int batch, const weir_model_input *in)
{
    open_rig(r, layers, batch, in, true);
}

void rig_open(rig *r, const char *layers, int batch, const weir_shape *sample)
{
    weir_model_input in = {.dims = sample->dims};

    memcpy(in.dim, sample->dim, sizeof in.dim);
    in.classes = count_classes(layers, sample->dim[sample->dims - 1]);
    rig_open_data(r, layers, batch, &in);
}

void rig_close(rig *r)
{
    weir_engine_close(&r->engine);
    weir_arena_free(r->arena);
}

static void run_forward(rig *r, bool training)
{
    weir_engine_refresh(&r->engine);
    r->engine.run =
        (weir_layer_run){.batch = {.n = r->plan->n,
                                   .x = r->x,
                                   .token = r->token,
                                   .label = r->label,
                                   .value = r->value},
                         .pass = {.training = training, .fresh = true, .first = r->first}};
    for (int i = 0; i < r->graph->nodes; i++)
        ok(weir_layer_steps_run(&r->plan->stage[i], WEIR_LAYER_FORWARD));
    if (r->take)
        ok(weir_dnn_op_run(r->take));
    else
        r->y[0] = (float)r->engine.run.score.loss;
}

void rig_forward(rig *r)
{
    memcpy(r->next, r->still, r->graph->still_floats * sizeof *r->next);
    run_forward(r, true);
}

void rig_evaluate(rig *r)
{
    memcpy(r->still, r->next, r->graph->still_floats * sizeof *r->next);
    run_forward(r, false);
}

void rig_backward(rig *r)
{
    r->engine.run.scale = r->scale;
    if (r->give)
        ok(weir_dnn_op_run(r->give));
    for (int i = r->graph->nodes - 1; i >= 0; i--) {
        ok(weir_layer_steps_run(&r->plan->stage[i], WEIR_LAYER_BACK_WEIGHTS));
        ok(weir_layer_steps_run(&r->plan->stage[i], WEIR_LAYER_BACK_DATA));
    }
}

/* ---- whole models ---- */

const weir_model_input pictures = {.dims = 3,
                                   .dim = {1, 28, 28},
                                   .kind = WEIR_SCORE_CLASSES,
                                   .classes = CLASSES};
const weir_model_input colours = {.dims = 3,
                                  .dim = {3, 32, 32},
                                  .kind = WEIR_SCORE_CLASSES,
                                  .classes = CLASSES};

/* Weights as PyTorch's side has them: the hash goes through the layers from the first to the last,
 * weight before bias. */
static void start_weights(bench *b)
{
    uint32_t stream = HASH_WEIGHT;
    int most = 0;

    for (int i = 0; i < b->tensors; i++)
        most = b->tensor[i].ready > most ? b->tensor[i].ready : most;
    for (int ready = most; ready >= 0; ready--) {
        bool norm = false;
        float root = 1;
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < b->tensors; i++) {
                const weir_tensor *t = &b->tensor[i];
                bool bias = strstr(t->name, ".bias") != NULL;
                if (t->ready != ready || bias != k)
                    continue;
                root = bias ? root : sqrtf((float)(t->n / (size_t)t->dim[0]));
                norm = bias ? norm : t->dims == 1;
                hash_fill(b->param + t->at, t->n, stream++, root);
                if (norm)
                    as_of_norm(b->param + t->at, t->n, bias);
            }
    }
    weir_model_refresh(b->model);
}

void set_batch(bench *b, uint32_t stream)
{
    hash_fill(b->x, ROOM * b->pixels, stream, 1);
    hash_labels(b->label, ROOM, stream + 1, CLASSES);
}

void bench_open(bench *b, const char *spec)
{
    const weir_model_input *in =
        !strncmp(spec, "mlp", 3) || !strncmp(spec, "lenet", 5) ? &pictures : &colours;

    *b = (bench){.arena = weir_arena_new(),
                 .pixels = (size_t)(in->dim[0] * in->dim[1] * in->dim[2])};
    ok(weir_model_open(spec, in, ROOM, b->arena, &b->model));
    b->tensor = weir_model_tensors(b->model, &b->tensors);
    b->params = weir_model_params(b->model);
    b->param = WEIR_NEW(b->arena, float, b->params);
    b->grad = WEIR_NEW(b->arena, float, b->params);
    b->x = WEIR_NEW(b->arena, float, ROOM * b->pixels);
    weir_model_attach(b->model, b->param, b->grad);
    weir_model_init(b->model, 1);
    start_weights(b);
    set_batch(b, HASH_STEP);
}

void bench_close(bench *b)
{
    weir_model_close(b->model);
    weir_arena_free(b->arena);
}

double pass(bench *b, int from, int n, float scale, bool add)
{
    weir_model_batch batch = {.n = n,
                              .x = b->x + (size_t)from * b->pixels,
                              .label = b->label + from};
    weir_score score = {0};

    ok(weir_model_forward(b->model, &batch, &(weir_pass){.training = true}, &score));
    assert_true(score.count == n && score.right >= 0 && score.right <= n);
    ok(weir_model_backward(b->model, scale, add, NULL, NULL));
    return score.loss;
}

void sgd_step(bench *b, float rate)
{
    weir_vec_best()->sgd_plain(b->param, b->grad, b->params, rate, 0, 1);
    weir_model_refresh(b->model);
}
