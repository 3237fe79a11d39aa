/* csv.c - regression on a table in comma-separated text, plain or gzipped: the last column is the
 * target. Some rows, chosen by a seed of the data's own, are the test part. Each column is
 * standardised by its training rows, the target too: facts.value_scale leads back.
 *
 * A table that a run is evaluated on is standardised by what the run learnt. All of its rows are
 * the test part, unless it is the very table that the run was trained on: then the same rows as
 * before are. test= or seed= in the spec say otherwise. */
#include "core/hash.h"
#include "data/data.h"
#include "data/files.h"
#include "data/table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct csv {
    const char *path;
    double test;
    int header;
    int64_t seed;
    weir_scale *scale; /* of each column */
    uint64_t columns;
    /* how the table was split: a hash of all of it, and how many rows were the test part's by which
     * seed. Of the table that the run was trained on until another is opened */
    struct split {
        uint64_t table;
        int64_t test, seed;
    } split;
    bool asked;                      /* the user says how to split */
    uint64_t first[WEIR_DATA_PARTS]; /* the row each part begins with */
    uint64_t hash[WEIR_DATA_PARTS];  /* of the rows as the file has them */
    float *value;                    /* standardised rows, the test part's first */
} csv;

static const double *row(const weir_table *t, const uint64_t *order, uint64_t place)
{
    return t->value + order[place] * t->cols;
}

static weir_scale fit(const weir_table *t, const uint64_t *order, uint64_t first, uint64_t col)
{
    double n = (double)(t->rows - first), sum = 0, squares = 0, mean;

    for (uint64_t i = first; i < t->rows; i++)
        sum += row(t, order, i)[col];
    mean = sum / n;
    for (uint64_t i = first; i < t->rows; i++) {
        double d = row(t, order, i)[col] - mean;
        squares += d * d;
    }
    return (weir_scale){mean, squares > 0 ? sqrt(squares / n) : 1};
}

/* What the training rows teach. */
static weir_err learn(csv *s, const weir_table *t, const uint64_t *order, weir_arena *a)
{
    s->columns = t->cols;
    if (!(s->scale = WEIR_NEW(a, weir_scale, s->columns)))
        return weir_fail_nomem(s->columns * sizeof *s->scale);
    for (uint64_t col = 0; col < s->columns; col++)
        s->scale[col] = fit(t, order, (uint64_t)s->split.test, col);
    return WEIR_OK;
}

/* A test row may lie further out than a float can tell. */
static weir_err standardise(csv *s, const weir_table *t, const uint64_t *order, uint64_t col)
{
    const weir_scale *c = &s->scale[col];

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

static weir_err standardise_all(csv *s, const weir_table *t, const uint64_t *order)
{
    if (s->columns != t->cols)
        return weir_fail(WEIR_INVALID,
                         "%s: %llu columns were found; %llu were expected, as in the table that "
                         "the run was trained on",
                         t->name, (unsigned long long)t->cols, (unsigned long long)s->columns);
    if (!(s->value = reallocarray(NULL, t->rows, t->cols * sizeof(float))))
        return weir_fail_nomem(t->rows * t->cols * sizeof(float));
    for (uint64_t col = 0; col < t->cols; col++)
        WEIR_TRY(standardise(s, t, order, col));
    return WEIR_OK;
}

/* Which rows are the test part: so many of a shuffle's first places. */
static weir_err split(csv *s, const weir_table *t, const weir_data_need *need)
{
    uint64_t hash = weir_hash(t->value, t->rows * t->cols * sizeof *t->value, t->cols);
    int64_t test = llround((double)t->rows * s->test), most = (int64_t)t->rows - 1;
    bool same = hash == s->split.table && s->split.test <= most;

    if (need->test_only && !s->asked) {
        if (!same)
            s->split = (struct split){hash, (int64_t)t->rows, s->seed};
        return WEIR_OK;
    }
    if (t->rows < 2)
        return weir_fail(WEIR_INVALID,
                         "%s: %llu row was found; one for training and one for the test were "
                         "expected",
                         t->name, (unsigned long long)t->rows);
    s->split = (struct split){hash, test < 1 ? 1 : test > most ? most : test, s->seed};
    return WEIR_OK;
}

/* order: the row that stands at each place; the first ones are the test part. */
static weir_err use_rows(csv *s, const weir_table *t, const uint64_t *order,
                         const weir_data_need *need, weir_arena *a, weir_data_facts *facts)
{
    uint64_t test = (uint64_t)s->split.test;
    weir_data_facts made = {.target = WEIR_TARGET_VALUES,
                            .classes = 1,
                            .dims = 1,
                            .dim = {(int64_t)t->cols - 1, 1, 1, 1}};

    s->first[WEIR_DATA_TRAIN] = made.count[WEIR_DATA_TEST] = test;
    made.count[WEIR_DATA_TRAIN] = need->test_only ? 0 : t->rows - test;
    s->hash[WEIR_DATA_TEST] = hash_rows(t, order, 0, test);
    s->hash[WEIR_DATA_TRAIN] = hash_rows(t, order, test, t->rows);
    if (!need->lessons)
        WEIR_TRY(learn(s, t, order, a));
    WEIR_TRY(standardise_all(s, t, order));
    made.value_scale = s->scale[s->columns - 1].deviation;
    *facts = made;
    return WEIR_OK;
}

static weir_err use_table(csv *s, const weir_table *t, const weir_data_need *need, weir_arena *a,
                          weir_data_facts *facts)
{
    uint64_t *order;
    weir_err err;

    WEIR_TRY(split(s, t, need));
    if (!(order = reallocarray(NULL, t->rows, sizeof *order)))
        return weir_fail_nomem(t->rows * sizeof *order);
    for (uint64_t i = 0; i < t->rows; i++)
        order[i] = weir_rng_shuffle((uint64_t)s->split.seed, UINT64_MAX, t->rows,
                                    i); /* no run has an epoch of that number */
    err = use_rows(s, t, order, need, a, facts);
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

    if (!s->path || !s->path[0])
        return weir_fail(WEIR_USAGE, "data csv: a file was expected, as in csv:FILE");
    WEIR_TRY(weir_files_read(s->path, &bytes, &n));
    err = weir_table_parse(s->path, bytes, n, (weir_table_header)s->header, &table);
    free(bytes);
    WEIR_TRY(err);
    err = use_table(s, &table, need, a, facts);
    weir_table_free(&table);
    return err;
}

static weir_err lessons(void *self, weir_lesson *l)
{
    csv *s = self;

    s->asked = weir_lesson_given(l, "test") || weir_lesson_given(l, "seed");
    WEIR_TRY(weir_lesson_hash(l, "table", &s->split.table));
    WEIR_TRY(weir_lesson_number(l, "test_rows", &s->split.test, 1, INT64_MAX));
    WEIR_TRY(weir_lesson_number(l, "seed", &s->split.seed, 0, INT64_MAX));
    return weir_lesson_scales(l, &s->scale, &s->columns);
}

static weir_err get(const void *self, const weir_data_pick *pick, weir_data_batch *batch)
{
    const csv *s = self;
    uint64_t inputs = s->columns - 1;

    for (int i = 0; i < pick->n; i++) {
        const float *row = s->value + (s->first[pick->part] + pick->index[i]) * s->columns;
        memcpy(batch->x + (uint64_t)i * inputs, row, inputs * sizeof *row);
        batch->value[i] = row[inputs];
    }
    batch->n = pick->n;
    return WEIR_OK;
}

static uint64_t hash(const void *self, weir_data_part part)
{
    return ((const csv *)self)->hash[part];
}

static void close_csv(void *self) { free(((csv *)self)->value); }

static const weir_opt options[] = {
    {"file", WEIR_OPT_TEXT, offsetof(csv, path), NULL, "the table", .bare = true, .path = true},
    {"test", WEIR_OPT_REAL, offsetof(csv, test), "0.1", "the portion of rows that is the test part",
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
    .lessons = lessons,
    .get = get,
    .hash = hash,
    .close = close_csv,
};
