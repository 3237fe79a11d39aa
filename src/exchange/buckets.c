/* buckets.c - see buckets.h. */
#include "exchange/buckets.h"
#include <string.h>

enum {
    FIRST_PART = 4, /* the first bucket is this many times smaller: the wire starts early */
    /* so is the last: it is whole only when backward ends, and nothing hides its way */
    LAST_PART = 4,
    /* what is this many times smaller than a bucket does not leave alone: a message more costs more
       than it waits */
    TINY = 16,
    LEAST_LAST = 8192 /* floats of which a last bucket is made */
};

/* What is being put together. `bucket` NULL: only counting. */
typedef struct cutter {
    size_t limit; /* floats */
    weir_cut_rules rules;
    weir_bucket *bucket;
    weir_view *view;
    int buckets, views;
    size_t at, n; /* the open bucket's range */
    int first_view;
    int ready;
    size_t rest; /* floats to come, the tail among them where it is no bucket of its own */
    float *param, *grad;
} cutter;

static void close_bucket(cutter *c, bool dense)
{
    if (c->bucket)
        c->bucket[c->buckets] = (weir_bucket){.id = c->buckets,
                                              .at = c->at,
                                              .n = c->n,
                                              .param = c->param ? c->param + c->at : NULL,
                                              .grad = c->grad ? c->grad + c->at : NULL,
                                              .ready = c->ready,
                                              .view = c->view + c->first_view,
                                              .views = c->views - c->first_view,
                                              .dense = dense,
                                              .dry = !c->param && !c->grad};
    c->buckets++;
    c->at += c->n;
    c->n = 0;
    c->first_view = c->views;
}

static size_t limit_now(const cutter *c) { return c->buckets ? c->limit : c->limit / FIRST_PART; }

static void add_view(cutter *c, const weir_tensor *t, size_t row, size_t rows, size_t cols)
{
    if (c->bucket)
        c->view[c->views] =
            (weir_view){.tensor = t, .at = c->n, .rows = rows, .cols = cols, .first = row * cols};
    c->views++;
    c->n += rows * cols;
    c->ready = t->ready > c->ready ? t->ready : c->ready;
}

/* A tensor larger than a bucket is cut at rows, unless it must stay whole. */
static void add_tensor(cutter *c, const weir_tensor *t, bool tail)
{
    size_t rows = t->dims > 1 ? (size_t)t->dim[0] : 1, cols = rows ? t->n / rows : 0, row = 0;

    if (tail || c->rules.whole) {
        if (!tail && c->n && c->n + t->n > limit_now(c))
            close_bucket(c, false);
        add_view(c, t, 0, rows, cols);
        return;
    }
    while (row < rows) {
        size_t room = limit_now(c) > c->n ? limit_now(c) - c->n : 0,
               take = cols ? room / cols : rows;
        if (take > rows - row)
            take = rows - row;
        /* what fits in one bucket is not cut merely because the open one is half full */
        if (take < rows - row && c->n && (take == 0 || t->n <= c->limit)) {
            if (c->n < c->limit / TINY && t->n <= c->limit) {
                add_view(c, t, row, rows - row, cols);
                return;
            }
            close_bucket(c, false);
            continue;
        }
        if (!take)
            take = 1;
        add_view(c, t, row, take, cols);
        row += take;
    }
}

static bool in_tail(const cutter *c, const weir_tensor *t)
{
    return weir_tensor_small(t, c->rules.small);
}

/* What is to come makes a last bucket. */
static bool last_begins(const cutter *c)
{
    return c->n >= c->limit / TINY && c->rest <= c->limit / LAST_PART &&
           c->rest >= c->limit / TINY && c->rest >= LEAST_LAST;
}

static void cut_tensors(cutter *c, const weir_tensor *tensor, int tensors, bool tail)
{
    bool last = false;

    for (const weir_tensor *t = tensor; t < tensor + tensors; t++) {
        if (in_tail(c, t) != tail)
            continue;
        if (!tail && !last && last_begins(c)) {
            close_bucket(c, false);
            last = true;
        }
        add_tensor(c, t, tail);
        c->rest -= t->n;
    }
}

static void cut_all(cutter *c, const weir_tensor *tensor, int tensors)
{
    c->buckets = c->views = c->first_view = 0;
    c->at = c->n = c->rest = 0;
    c->ready = -1;
    for (const weir_tensor *t = tensor; t < tensor + tensors; t++)
        c->rest += in_tail(c, t) && !c->rules.fuse ? 0 : t->n;
    cut_tensors(c, tensor, tensors, false);
    if (c->n && !c->rules.fuse)
        close_bucket(c, false);
    cut_tensors(c, tensor, tensors, true);
    close_bucket(c, true);
}

weir_err weir_buckets_cut(const weir_flat *flat, const weir_cut_rules *rules, weir_arena *arena,
                          weir_bucket **bucket, int *count)
{
    cutter c = {.limit = rules->bytes / sizeof(float),
                .rules = *rules,
                .param = flat->param,
                .grad = flat->grad};

    cut_all(&c, flat->tensor, flat->tensors);
    weir_bucket *made = WEIR_NEW(arena, weir_bucket, c.buckets);
    c.view = WEIR_NEW(arena, weir_view, c.views);
    if (!made || !c.view)
        return weir_fail_nomem((size_t)c.buckets * sizeof *made);
    c.bucket = made;
    cut_all(&c, flat->tensor, flat->tensors);
    *bucket = made;
    *count = c.buckets;
    return WEIR_OK;
}
