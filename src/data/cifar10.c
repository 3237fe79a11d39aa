/* cifar10.c - the pictures of CIFAR-10 in its binary batches: every DIR/data_batch_*.bin there is,
 * of any number of records, and test_batch.bin, each plain or gzipped. Each channel is standardised
 * by itself. */
#include "core/hash.h"
#include "data/augment.h"
#include "data/data.h"
#include "data/files.h"
#include "data/records.h"
#include "data/standard.h"
#include <stdlib.h>
#include <string.h>

typedef const unsigned char *record;

typedef struct cifar10 {
    const char *dir;
    int64_t limit[WEIR_PARTS]; /* 0: all there are */
    bool augment;
    record *at[WEIR_PARTS]; /* where each sample lies */
    uint64_t count[WEIR_PARTS];
    weir_standard channel[WEIR_RECORD_PLANES];
    char **bytes; /* of the files, ours to free */
    int files;
} cifar10;

static const int64_t shape[] = {WEIR_RECORD_PLANES, WEIR_RECORD_SIDE, WEIR_RECORD_SIDE};

static bool is_train(const char *name, const char *word)
{
    return !strncmp(name, word, strlen(word)) && weir_files_end(name, ".bin");
}
static bool is_test(const char *name, const char *word)
{
    size_t n = strlen(word);

    return !strncmp(name, word, n) && (!name[n] || !strcmp(name + n, ".gz"));
}

static weir_err find(const char *dir, weir_arena *a, weir_files *train, weir_files *test)
{
    WEIR_TRY(weir_files_find(dir, is_train, "data_batch_", a, train));
    WEIR_TRY(weir_files_find(dir, is_test, "test_batch.bin", a, test));
    if (!train->n || !test->n)
        return weir_fail(WEIR_INVALID, "%s: there is no %s, plain or .gz", dir,
                         train->n ? "test_batch.bin" : "data_batch_*.bin");
    return WEIR_OK;
}

/* Reads one file after the other; the records' places are known when all are there. */
static weir_err load(cifar10 *s, const weir_files *f, weir_arena *a, int part)
{
    uint64_t *count = WEIR_NEW(a, uint64_t, f->n), at = 0;
    int first = s->files;
    size_t n;

    if (!count)
        return weir_fail_nomem((size_t)f->n * sizeof *count);
    for (int i = 0; i < f->n; i++) {
        WEIR_TRY(weir_files_read(f->path[i], &s->bytes[s->files], &n));
        WEIR_TRY(weir_records_check(f->path[i], s->bytes[s->files++], n, &count[i]));
        s->count[part] += count[i];
    }
    if (!(s->at[part] = WEIR_NEW(a, record, s->count[part])))
        return weir_fail_nomem(s->count[part] * sizeof(record));
    for (int i = 0; i < f->n; i++)
        for (uint64_t k = 0; k < count[i]; k++)
            s->at[part][at++] = (record)s->bytes[first + i] + k * WEIR_RECORD_BYTES;
    return WEIR_OK;
}

static void fit(cifar10 *s)
{
    for (int c = 0; c < WEIR_RECORD_PLANES; c++) {
        uint64_t count[256] = {0};
        for (uint64_t i = 0; i < s->count[WEIR_TRAIN]; i++)
            for (int k = 0; k < WEIR_RECORD_PLANE; k++)
                count[s->at[WEIR_TRAIN][i][1 + c * WEIR_RECORD_PLANE + k]]++;
        weir_standard_fit_counts(&s->channel[c], count);
    }
}

/* The limits shorten the parts but change no sample: mean and deviation are those of the whole
 * files. */
static weir_err open_cifar10(void *self, const weir_data_need *need, weir_arena *a,
                             weir_data_facts *facts)
{
    cifar10 *s = self;
    weir_data_facts made = {.target = WEIR_CLASSES,
                            .classes = WEIR_RECORD_CLASSES,
                            .dims = 3,
                            .dim = {1, 1, 1, 1}};
    weir_files found[WEIR_PARTS];

    (void)need;
    if (!s->dir || !s->dir[0])
        return weir_fail(WEIR_USAGE, "data cifar10: a directory was expected, as in cifar10:DIR");
    WEIR_TRY(find(s->dir, a, &found[WEIR_TRAIN], &found[WEIR_TEST]));
    if (!(s->bytes = WEIR_NEW(a, char *, found[WEIR_TRAIN].n + found[WEIR_TEST].n)))
        return weir_fail_nomem((size_t)(found[WEIR_TRAIN].n + found[WEIR_TEST].n) *
                               sizeof *s->bytes);
    for (int part = 0; part < WEIR_PARTS; part++) {
        uint64_t limit = (uint64_t)s->limit[part];
        WEIR_TRY(load(s, &found[part], a, part));
        made.count[part] = limit && limit < s->count[part] ? limit : s->count[part];
    }
    fit(s);
    memcpy(made.dim, shape, sizeof shape);
    *facts = made;
    return WEIR_OK;
}

static weir_err get(const void *self, const weir_pick *pick, weir_batch *batch)
{
    const cifar10 *s = self;

    for (int i = 0; i < pick->n; i++) {
        record from = s->at[pick->part][pick->index[i]];
        float *x = batch->x + (size_t)i * WEIR_RECORD_PLANES * WEIR_RECORD_PLANE;
        batch->label[i] = from[0];
        for (int k = 0; k < WEIR_RECORD_PLANES * WEIR_RECORD_PLANE; k++)
            x[k] = s->channel[k / WEIR_RECORD_PLANE].byte[from[1 + k]];
        if (s->augment && pick->part == WEIR_TRAIN)
            weir_augment(x, shape, pick, i);
    }
    batch->n = pick->n;
    return WEIR_OK;
}

/* Record by record: how they are cut into files does not matter. */
static uint64_t hash(const void *self, weir_part part)
{
    const cifar10 *s = self;
    uint64_t h = 0;

    for (uint64_t i = 0; i < s->count[part]; i++)
        h = weir_hash(s->at[part][i], WEIR_RECORD_BYTES, h);
    return h;
}

static void close_cifar10(void *self)
{
    cifar10 *s = self;

    while (s->files > 0)
        free(s->bytes[--s->files]);
}

static const weir_opt options[] = {
    {"dir", WEIR_OPT_TEXT, offsetof(cifar10, dir), NULL, "where the files are", .bare = true},
    {"augment", WEIR_OPT_BOOL, offsetof(cifar10, augment), "no",
     .help = "crop and flip training pictures at random"},
    {"limit", WEIR_OPT_INT, offsetof(cifar10, limit[WEIR_TRAIN]), "0",
     "training samples used; 0: all", .min = 0, .max = 1e18},
    {"test_limit", WEIR_OPT_INT, offsetof(cifar10, limit[WEIR_TEST]), "0",
     "test samples used; 0: all", .min = 0, .max = 1e18},
    {0},
};

const weir_data weir_data_cifar10 = {
    .plug = {"cifar10", "pictures in CIFAR-10's binary batches", sizeof(cifar10), options},
    .open = open_cifar10,
    .get = get,
    .hash = hash,
    .close = close_cifar10,
};
