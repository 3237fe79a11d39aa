/* csv.c - regression on a table in comma-separated text, plain or gzipped: the last column is the
 * target. Some rows, chosen by a seed of the data's own, are the test part. Each column is
 * standardised by its training rows, the target too: facts.value_scale leads back. */
#include "core/hash.h"
#include "data/data.h"
#include "data/files.h"
#include "data/table.h"
#include <math.h>
#include <stdlib.h>

typedef struct csv {
    const char *path;
    double test;
    int header;
    int64_t seed;
    uint64_t inputs, first[WEIR_PARTS]; /* the row each part begins with */
    uint64_t hash[WEIR_PARTS];          /* of the rows as the file has them */
    float *value;                       /* standardised rows, the test part's first */
} csv;

typedef struct column {
    double mean, deviation;
} column;

static const double *row(const weir_table *t, const uint64_t *order, uint64_t place)
{
    return t->value + order[place] * t->cols;
}

static column fit(const csv *s, const weir_table *t, const uint64_t *order, uint64_t col)
{
    double n = (double)(t->rows - s->first[WEIR_TRAIN]), sum = 0, squares = 0, mean;

    for (uint64_t i = s->first[WEIR_TRAIN]; i < t->rows; i++)
        sum += row(t, order, i)[col];
    mean = sum / n;
    for (uint64_t i = s->first[WEIR_TRAIN]; i < t->rows; i++) {
        double d = row(t, order, i)[col] - mean;
        squares += d * d;
    }
    return (column){mean, squares > 0 ? sqrt(squares / n) : 1};
}

/* A test row may lie further out than a float can tell. */
static weir_err standardise(csv *s, const weir_table *t, const uint64_t *order, uint64_t col,
                            const column *c)
{
    for (uint64_t i = 0; i < t->rows; i++) {
        double x = (row(t, order, i)[col] - c->mean) / c->deviation;
        if (!(fabs(x) <= 1e30))
            return weir_fail(
                WEIR_INVALID,
                "%s: line %llu, column %llu: %g is too far from the mean %g and deviation %g",
                t->name, (unsigned long long)t->line[order[i]], (unsigned long long)col + 1,
                row(t, order, i)[col], c->mean, c->deviation);
        s->value[i * t->cols + col] = (float)x;
    }
    return WEIR_OK;
}

static uint64_t hash_rows(const weir_table *t, const uint64_t *order, uint64_t from, uint64_t to)
{
    uint64_t h = t->cols;

    for (uint64_t i = from; i < to; i++)
        h = weir_hash(row(t, order, i), t->cols * sizeof(double), h);
    return h;
}

/* order: the row that stands at each place; the first `test` places are the test part. */
static weir_err use_rows(csv *s, const weir_table *t, uint64_t test, const uint64_t *order,
                         weir_data_facts *facts)
{
    weir_data_facts made = {.target = WEIR_VALUES,
                            .classes = 1,
                            .dims = 1,
                            .dim = {(int64_t)t->cols - 1, 1, 1, 1}};

    s->inputs = t->cols - 1;
    s->first[WEIR_TRAIN] = made.count[WEIR_TEST] = test;
    made.count[WEIR_TRAIN] = t->rows - test;
    s->hash[WEIR_TEST] = hash_rows(t, order, 0, test);
    s->hash[WEIR_TRAIN] = hash_rows(t, order, test, t->rows);
    if (!(s->value = reallocarray(NULL, t->rows, t->cols * sizeof(float))))
        return weir_fail_nomem(t->rows * t->cols * sizeof(float));
    for (uint64_t col = 0; col < t->cols; col++) {
        column c = fit(s, t, order, col);
        WEIR_TRY(standardise(s, t, order, col, &c));
        made.value_scale = c.deviation; /* the last one's stays: the target's */
    }
    *facts = made;
    return WEIR_OK;
}

static weir_err use_table(csv *s, const weir_table *t, weir_data_facts *facts)
{
    uint64_t test = (uint64_t)llround((double)t->rows * s->test), *order;
    weir_err err;

    if (t->rows < 2)
        return weir_fail(
            WEIR_INVALID,
            "%s: %llu row was found; one for training and one for the test were expected", t->name,
            (unsigned long long)t->rows);
    if (!(order = reallocarray(NULL, t->rows, sizeof *order)))
        return weir_fail_nomem(t->rows * sizeof *order);
    for (uint64_t i = 0; i < t->rows; i++)
        order[i] = weir_rng_shuffle((uint64_t)s->seed, UINT64_MAX, t->rows,
                                    i); /* no run has an epoch of that number */
    err = use_rows(s, t, test < 1 ? 1 : test > t->rows - 1 ? t->rows - 1 : test, order, facts);
    free(order);
    return err;
}

static weir_err open_csv(void *self, const weir_data_need *need, weir_arena *a,
                         weir_data_facts *facts)
{
    csv *s = self;
    weir_table table;
    char *bytes;
    size_t n;
    weir_err err;

    (void)need, (void)a;
    if (!s->path || !s->path[0])
        return weir_fail(WEIR_USAGE, "data csv: a file was expected, as in csv:FILE");
    WEIR_TRY(weir_files_read(s->path, &bytes, &n));
    err = weir_table_parse(s->path, bytes, n, (weir_header)s->header, &table);
    free(bytes);
    WEIR_TRY(err);
    err = use_table(s, &table, facts);
    weir_table_free(&table);
    return err;
}

static weir_err get(const void *self, const weir_pick *pick, weir_batch *batch)
{
    const csv *s = self;

    for (int i = 0; i < pick->n; i++) {
        const float *row = s->value + (s->first[pick->part] + pick->index[i]) * (s->inputs + 1);
        for (uint64_t k = 0; k < s->inputs; k++)
            batch->x[(uint64_t)i * s->inputs + k] = row[k];
        batch->value[i] = row[s->inputs];
    }
    batch->n = pick->n;
    return WEIR_OK;
}

static uint64_t hash(const void *self, weir_part part) { return ((const csv *)self)->hash[part]; }

static void close_csv(void *self) { free(((csv *)self)->value); }

static const weir_opt options[] = {
    {"file", WEIR_OPT_TEXT, offsetof(csv, path), NULL, "the table", .bare = true},
    {"test", WEIR_OPT_REAL, offsetof(csv, test), "0.1", "the share of rows that is the test part",
     .min = 1e-9, .max = 0.9},
    {"header", WEIR_OPT_CHOICE, offsetof(csv, header), "auto", "whether the first line is one",
     .choices = "auto|yes|no"},
    {"seed", WEIR_OPT_INT, offsetof(csv, seed), "0", "of the choice of test rows; not the run's",
     .min = 0, .max = 1e18},
    {0},
};

const weir_data weir_data_csv = {
    .plug = {"csv", "regression on a table; the last column is the target", sizeof(csv), options},
    .open = open_csv,
    .get = get,
    .hash = hash,
    .close = close_csv,
};
