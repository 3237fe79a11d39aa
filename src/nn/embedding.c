/* embedding.c - a row of a table for every token. Its gradient is as large as the table and mostly
 * zero: backward goes through the table once, in order, and writes every row once. */
#include "core/vec.h"
#include "nn/layer.h"
#include "nn/parallel.h"
#include <string.h>

typedef struct embedding {
    int64_t out;
} embedding;

/* For one batch size. Where a token occurs: head of its list, and for every place the next one; -1
 * ends it. */
typedef struct bound {
    weir_mem *token, *table, *grad, *exact, *y, *dy, *head, *next; /* exact NULL: not exact mode */
    int64_t rows, vocabulary, width;
} bound;

static const weir_opt options[] = {{"out", WEIR_OPT_INT, offsetof(embedding, out), NULL,
                                    "numbers a token", 1, INT32_MAX, NULL, false, false},
                                   {0}};

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    const embedding *e = self;

    if (in->dims != 2)
        return weir_fail(WEIR_INVALID,
                         "embedding reads one row of tokens a sample, not %d dimensions",
                         in->dims - 1);
    *out = (weir_shape){3, {1, in->dim[1], e->out}};
    w[0] = (weir_weights){.name = "weight",
                          .shape = {2, {input->classes, e->out}},
                          .decays = true,
                          .deviation = 1};
    *weights = 1;
    return WEIR_OK;
}

static void copy_rows(void *arg, int64_t from, int64_t to)
{
    const bound *b = arg;
    const int32_t *token = b->token->at;
    const float *table = b->table->at;
    float *y = b->y->at;

    for (int64_t i = from; i < to; i++)
        memcpy(y + i * b->width, table + token[i] * b->width, (size_t)b->width * sizeof *y);
}

static weir_err forward(void *arg)
{
    const bound *b = arg;
    const int32_t *token = b->token->at;

    for (int64_t i = 0; i < b->rows; i++)
        if (token[i] < 0 || token[i] >= b->vocabulary)
            return weir_fail(WEIR_INVALID,
                             "place %lld of the batch has the token %d, and the model has %lld",
                             (long long)i, token[i], (long long)b->vocabulary);
    weir_parallel_for(b->rows, 16, copy_rows, arg);
    return WEIR_OK;
}

static void sum_rows(void *arg, int64_t from, int64_t to)
{
    const bound *b = arg;
    const int32_t *head = b->head->at, *next = b->next->at;
    const float *dy = b->dy->at;
    const size_t bytes = (size_t)b->width * sizeof *dy;

    for (int64_t v = from; v < to; v++) {
        float *row = (float *)b->grad->at + v * b->width;
        int32_t i = head[v];
        if (i < 0)
            memset(row, 0, bytes);
        else
            memcpy(row, dy + i * b->width, bytes);
        while (i >= 0 && (i = next[i]) >= 0)
            weir_vec_best()->add(row, dy + i * b->width, (size_t)b->width);
    }
}

static void add_exact(void *arg, int64_t from, int64_t to)
{
    const bound *b = arg;
    const int32_t *head = b->head->at, *next = b->next->at;
    const float *dy = b->dy->at;

    for (int64_t v = from; v < to; v++)
        for (int32_t i = head[v]; i >= 0; i = next[i])
            weir_vec_best()->add_wide((double *)b->exact->at + v * b->width, dy + i * b->width,
                                      (size_t)b->width);
}

static weir_err back(void *arg)
{
    const bound *b = arg;
    const int32_t *token = b->token->at;
    int32_t *head = b->head->at, *next = b->next->at;

    memset(head, -1, (size_t)b->vocabulary * sizeof *head);
    for (int64_t i = b->rows - 1; i >= 0; i--) { /* backwards, so that places rise along a list */
        next[i] = head[token[i]];
        head[token[i]] = (int32_t)i;
    }
    weir_parallel_for(b->vocabulary, 16, b->exact ? add_exact : sum_rows, arg);
    return WEIR_OK;
}

static weir_err bind_embedding(void *self, const weir_bind *b)
{
    bound *s = WEIR_NEW(b->arena, bound, 1);
    const weir_layout *plain;

    (void)self;
    if (!s)
        return weir_fail_nomem(sizeof *s);
    WEIR_TRY(weir_layout_plain(b->dnn, &b->out->shape, &plain));
    WEIR_TRY(weir_bind_out(b, plain));
    *s = (bound){.token = b->in->data,
                 .table = b->param[0].data,
                 .grad = b->param[0].grad,
                 .y = b->out->data,
                 .dy = b->out->grad};
    s->exact = b->param[0].exact;
    s->width = b->out->shape.dim[2];
    s->rows = b->in->shape.dim[0] * b->in->shape.dim[1];
    s->vocabulary = (int64_t)(s->table->bytes / sizeof(float)) / s->width;
    if (s->rows > INT32_MAX)
        return weir_fail(WEIR_FAILED, "%lld tokens in a batch are too many", (long long)s->rows);
    WEIR_TRY(weir_bind_loop(b, WEIR_LAYER_FORWARD, forward, s, (weir_mem *[]){s->y, NULL}));
    WEIR_TRY(weir_bind_mem(b, (size_t)s->vocabulary * sizeof(int32_t), &s->head));
    WEIR_TRY(weir_bind_mem(b, (size_t)s->rows * sizeof(int32_t), &s->next));
    return weir_bind_loop(b, WEIR_LAYER_BACK_WEIGHTS, back, s,
                          (weir_mem *[]){s->dy, s->head, s->next, NULL});
}

const weir_layer weir_layer_embedding = {
    .plug = {"embedding", "a learned row of numbers for every token", sizeof(embedding), options},
    .tokens = true,
    .exact = true,
    .shape = shape,
    .bind = bind_embedding,
};
