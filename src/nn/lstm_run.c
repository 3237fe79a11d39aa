/* lstm_run.c - the loop over time. */
#include "nn/kernels.h"
#include "nn/lstm.h"
#include "nn/parallel.h"
#include <string.h>

enum { CHUNK = 24 }; /* rows of a tile on the stack */

/* ---- weights in units ---- */

/* Unit u of forward: the four gates of 16 cells. Cells behind the last one have weights of 0. */
static void pack_ahead(void *arg, int64_t from, int64_t to)
{
    const weir_lstm_bound *b = arg;
    const int64_t w = b->self->out;
    const float *weight = b->weight->at;

    for (int64_t u = from * 4; u < to * 4; u++) {
        const float *row = weight + (u % 4 * w + u / 4 * WEIR_UNIT) * w;
        float *unit = b->self->level[b->level].ahead + u * w * WEIR_UNIT;
        int64_t cells = w - u / 4 * WEIR_UNIT;
        for (int64_t k = 0; k < w; k++)
            for (int64_t j = 0; j < WEIR_UNIT; j++)
                unit[k * WEIR_UNIT + j] = j < cells ? row[j * w + k] : 0;
    }
}

static void pack_back(void *arg, int64_t from, int64_t to)
{
    const weir_lstm_bound *b = arg;
    const int64_t w = b->self->out;
    const float *weight = b->weight->at;

    for (int64_t u = from; u < to; u++) {
        float *unit = b->self->level[b->level].back + u * 4 * w * WEIR_UNIT;
        int64_t cells = w - u * WEIR_UNIT < WEIR_UNIT ? w - u * WEIR_UNIT : WEIR_UNIT;
        for (int64_t k = 0; k < 4 * w; k++)
            for (int64_t j = 0; j < WEIR_UNIT; j++)
                unit[k * WEIR_UNIT + j] = j < cells ? weight[k * w + u * WEIR_UNIT + j] : 0;
    }
}

static void repack(weir_lstm_bound *b, unsigned *at, void (*pack)(void *, int64_t, int64_t))
{
    if (*at != b->weight->version + 1)
        weir_parallel_for(weir_units(b->self->out), 1, pack, b);
    *at = b->weight->version + 1;
}

/* ---- carried state ---- */

/* Where sample i's state of this level begins: h, then c. */
static float *state_of(const weir_lstm_bound *b, float *all, int64_t i)
{
    return all + (i * b->self->layers + b->level) * 2 * b->self->out;
}

/* Whether the streams of a training pass are among those whose state is kept. */
static bool has_streams(const weir_lstm_bound *b)
{
    uint64_t first = b->run->pass.first, mine = b->self->first, count = b->self->count;

    return first >= mine && first - mine <= count && (uint64_t)b->n <= count - (first - mine);
}

/* Samples that are no streams begin anew in every pass, and nobody need have told of them. */
static weir_err check_streams(const weir_lstm_bound *b)
{
    weir_lstm *l = b->self;
    const weir_pass *pass = &b->run->pass;

    if (!has_streams(b) && (l->streams_known || !pass->fresh))
        return weir_fail(
            WEIR_FAILED,
            "a batch of %lld streams from number %llu on, and this worker has %llu from %llu on",
            (long long)b->n, (unsigned long long)pass->first, (unsigned long long)l->count,
            (unsigned long long)l->first);
    if (!b->level && !pass->micro)
        memset(l->wrote, 0, l->count * sizeof *l->wrote);
    return WEIR_OK;
}

static weir_err begin(const weir_lstm_bound *b)
{
    weir_lstm *l = b->self;
    const weir_pass *pass = &b->run->pass;
    const size_t bytes = (size_t)l->out * sizeof(float);
    float *h = b->turns->at, *c = b->begin->at, *before = b->before->at;

    if (pass->training)
        WEIR_TRY(check_streams(b));
    for (int64_t i = 0; i < b->n; i++, h += l->out, c += l->out) {
        if (pass->fresh) {
            memset(h, 0, bytes);
            memset(c, 0, bytes);
        } else {
            int64_t slot = (int64_t)(pass->first - l->first) + i;
            const float *old = pass->training ? state_of(b, l->now, slot) : state_of(b, l->test, i);
            memcpy(h, old, bytes);
            memcpy(c, old + l->out, bytes);
        }
        memcpy(before + i * b->length * l->out, h, bytes);
    }
    return WEIR_OK;
}

static void end(const weir_lstm_bound *b)
{
    weir_lstm *l = b->self;
    const weir_pass *pass = &b->run->pass;
    const size_t bytes = (size_t)l->out * sizeof(float);

    for (int64_t i = 0; i < b->n && (!pass->training || has_streams(b)); i++) {
        int64_t row = (i + 1) * b->length - 1, slot = (int64_t)(pass->first - l->first) + i;
        float *new = pass->training ? state_of(b, l->next, slot) : state_of(b, l->test, i);
        memcpy(new, (float *)b->y->at + row * l->out, bytes);
        memcpy(new + l->out, (float *)b->c->at + row * l->out, bytes);
        if (pass->training)
            l->wrote[slot] = true;
    }
}

/* The cells of a unit, of some rows, at time b->t: where those of both directions lie. */
static weir_lstm_cells cells_of(const weir_lstm_bound *b, int64_t u, int64_t r, int64_t rows,
                                const float *sum)
{
    const int64_t w = b->self->out, t = b->t, at = u * WEIR_UNIT, row = r * b->length + t;
    weir_lstm_cells s = {.rows = rows,
                         .cells = w - at < WEIR_UNIT ? w - at : WEIR_UNIT,
                         .gap = w,
                         .sum = sum,
                         .carry_row = w};

    s.gate = (float *)b->gates->at + row * 4 * w + at;
    s.gate_row = b->length * 4 * w;
    s.c = (float *)b->c->at + row * w + at;
    s.c_row = s.h_row = b->length * w;
    s.old = t ? s.c - w : (float *)b->begin->at + r * w + at;
    s.old_row = t ? s.c_row : w;
    return s;
}

/* ---- forward ---- */

/* The cells of a unit, of some rows, at time b->t. */
static void forward_tile(const weir_lstm_bound *b, int64_t u, int64_t r, int64_t rows)
{
    const weir_kernels *kernels = weir_kernels_best();
    const int64_t w = b->self->out, t = b->t, at = u * WEIR_UNIT, row = r * b->length + t;
    const float *weight = b->self->level[b->level].ahead + u * 4 * w * WEIR_UNIT;
    _Alignas(64) float sum[CHUNK * 4 * WEIR_UNIT];
    float *turns = b->turns->at, *now = turns + t % 2 * b->n * w,
          *next = turns + (t + 1) % 2 * b->n * w;

    kernels->product(&(weir_product){rows,
                                     4,
                                     w,
                                     {now + r * w, w, 1},
                                     {weight, WEIR_UNIT, w * WEIR_UNIT},
                                     {sum, 4 * WEIR_UNIT, WEIR_UNIT},
                                     false});
    weir_lstm_cells s = cells_of(b, u, r, rows, sum);
    s.h = (float *)b->y->at + row * w + at;
    s.copy_row = b->length * w;
    s.carry = next + r * w + at;
    s.copy = t + 1 < b->length ? (float *)b->before->at + (row + 1) * w + at : NULL;
    kernels->lstm(&s);
}

static void forward_units(void *arg, int64_t from, int64_t to)
{
    const weir_lstm_bound *b = arg;

    for (int64_t u = from; u < to; u++)
        for (int64_t r = 0; r < b->n; r += CHUNK)
            forward_tile(b, u, r, b->n - r < CHUNK ? b->n - r : CHUNK);
}

weir_err weir_lstm_forward(void *arg)
{
    weir_lstm_bound *b = arg;

    repack(b, &b->self->level[b->level].ahead_at, pack_ahead);
    WEIR_TRY(begin(b));
    for (b->t = 0; b->t < b->length; b->t++)
        weir_parallel_for(weir_units(b->self->out), 1, forward_units, b);
    end(b);
    return WEIR_OK;
}

/* ---- backward ---- */

/* What the gradients of the next step's gates are to h, for some units: unit by unit, rows
 * WEIR_UNIT apart. */
static void back_product(const weir_lstm_bound *b, int64_t u, int64_t units, int64_t r,
                         int64_t rows, float *sum)
{
    const int64_t w = b->self->out;
    const float *weight = b->self->level[b->level].back + u * 4 * w * WEIR_UNIT;
    const float *next = (float *)b->dturns->at + (b->t + 1) % 2 * b->n * 4 * w;

    if (b->t + 1 == b->length) {
        memset(sum, 0, (size_t)(units * rows * WEIR_UNIT) * sizeof *sum);
        return;
    }
    weir_kernels_best()->product(&(weir_product){rows,
                                                 units,
                                                 4 * w,
                                                 {next + r * 4 * w, 4 * w, 1},
                                                 {weight, WEIR_UNIT, 4 * w * WEIR_UNIT},
                                                 {sum, WEIR_UNIT, rows * WEIR_UNIT},
                                                 false});
}

static void back_tile(const weir_lstm_bound *b, int64_t u, int64_t r, int64_t rows,
                      const float *sum)
{
    const int64_t w = b->self->out, t = b->t, at = u * WEIR_UNIT, row = r * b->length + t;
    weir_lstm_cells s = cells_of(b, u, r, rows, sum);

    s.h = (float *)b->dy->at + row * w + at;
    s.carry = (float *)b->dc->at + r * w + at;
    s.copy = (float *)b->dturns->at + (t % 2 * b->n + r) * 4 * w + at;
    s.copy_row = 4 * w;
    s.copy_gap = w;
    weir_kernels_best()->lstm_back(&s);
}

static void back_units(void *arg, int64_t from, int64_t to)
{
    const weir_lstm_bound *b = arg;
    _Alignas(64) float sum[CHUNK * 4 * WEIR_UNIT];

    for (int64_t u = from, units; u < to; u += units) {
        units = to - u < 4 ? to - u : 4;
        for (int64_t r = 0, rows; r < b->n; r += rows) {
            rows = b->n - r < CHUNK ? b->n - r : CHUNK;
            back_product(b, u, units, r, rows, sum);
            for (int64_t k = 0; k < units; k++)
                back_tile(b, u + k, r, rows, sum + k * rows * WEIR_UNIT);
        }
    }
}

weir_err weir_lstm_back(void *arg)
{
    weir_lstm_bound *b = arg;

    repack(b, &b->self->level[b->level].back_at, pack_back);
    memset(b->dc->at, 0, (size_t)(b->n * b->self->out) * sizeof(float));
    for (b->t = b->length - 1; b->t >= 0; b->t--)
        weir_parallel_for(weir_units(b->self->out), 1, back_units, b);
    return WEIR_OK;
}
