/* cifar10.c - the pictures of CIFAR-10 in its binary batches: every DIR/data_batch_*.bin there is,
 * of any number of records, and test_batch.bin, each plain or gzipped. Each channel is standardised
 * by itself. */
#include "core/hash.h"
#include "data/augment.h"
#include "data/data.h"
#include "data/files.h"
#include "data/cifar10_file.h"
#include "data/standard.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef const unsigned char *record;

typedef struct cifar10 {
    const char *dir;
    int64_t limit[WEIR_DATA_PARTS]; /* 0: all there are */
    bool augment;
    record *at[WEIR_DATA_PARTS]; /* where each sample lies */
    uint64_t count[WEIR_DATA_PARTS];
    weir_scale *scale; /* one for each channel */
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

static weir_err find(const char *dir, int part, weir_arena *a, weir_files *found)
{
    static const char *const word[WEIR_DATA_PARTS] = {"data_batch_", "test_batch.bin"};

    WEIR_TRY(
        weir_files_find(dir, part == WEIR_DATA_TRAIN ? is_train : is_test, word[part], a, found));
    if (!found->n)
        return weir_fail(WEIR_INVALID, "%s: there is no %s, plain or .gz", dir,
                         part == WEIR_DATA_TRAIN ? "data_batch_*.bin" : "test_batch.bin");
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

/* What the training part teaches. */
static weir_err learn(cifar10 *s, weir_arena *a)
{
    if (!(s->scale = WEIR_NEW(a, weir_scale, WEIR_RECORD_PLANES)))
        return weir_fail_nomem(WEIR_RECORD_PLANES * sizeof *s->scale);
    for (int c = 0; c < WEIR_RECORD_PLANES; c++) {
        uint64_t count[256] = {0};
        for (uint64_t i = 0; i < s->count[WEIR_DATA_TRAIN]; i++)
            for (int k = 0; k < WEIR_RECORD_PLANE; k++)
                count[s->at[WEIR_DATA_TRAIN][i][1 + c * WEIR_RECORD_PLANE + k]]++;
        s->scale[c] = weir_scale_fit_counts(count);
    }
    return WEIR_OK;
}

/* The files of all parts from `first` on. */
static weir_err load_parts(cifar10 *s, int first, weir_arena *a)
{
    weir_files found[WEIR_DATA_PARTS];
    int files = 0;

    for (int part = first; part < WEIR_DATA_PARTS; part++) {
        WEIR_TRY(find(s->dir, part, a, &found[part]));
        files += found[part].n;
    }
    if (!(s->bytes = WEIR_NEW(a, char *, files)))
        return weir_fail_nomem((size_t)files * sizeof *s->bytes);
    for (int part = first; part < WEIR_DATA_PARTS; part++)
        WEIR_TRY(load(s, &found[part], a, part));
    return WEIR_OK;
}

/* The limits shorten the parts but change no sample: mean and deviation are those of the whole
 * files. */
static weir_err open_cifar10(void *self, const weir_data_need *need, weir_arena *a,
                             weir_data_facts *facts)
{
    cifar10 *s = self;
    weir_data_facts made = {.target = WEIR_TARGET_CLASSES,
                            .classes = WEIR_RECORD_CLASSES,
                            .dims = 3,
                            .dim = {1, 1, 1, 1}};

    if (!s->dir || !s->dir[0])
        return weir_fail(WEIR_USAGE, "data cifar10: a directory was expected, as in cifar10:DIR");
    WEIR_TRY(load_parts(s, need->test_only ? WEIR_DATA_TEST : WEIR_DATA_TRAIN, a));
    for (int part = 0; part < WEIR_DATA_PARTS; part++)
        made.count[part] = weir_data_limited(s->limit[part], s->count[part]);
    if (!need->lessons)
        WEIR_TRY(learn(s, a));
    for (int c = 0; c < WEIR_RECORD_PLANES; c++)
        weir_standard_set(&s->channel[c], s->scale[c]);
    memcpy(made.dim, shape, sizeof shape);
    *facts = made;
    return WEIR_OK;
}

static weir_err lessons(void *self, weir_lesson *l)
{
    cifar10 *s = self;
    uint64_t n = WEIR_RECORD_PLANES;

    WEIR_TRY(weir_lesson_scales(l, &s->scale, &n));
    for (uint64_t c = 0; c < n; c++) /* bytes, taken as 0 to 1 */
        if (fabs(s->scale[c].mean) > 1 || s->scale[c].deviation < 1e-6)
            return weir_lesson_damaged("mean and deviation %llu are no picture's",
                                       (unsigned long long)c);
    return n == WEIR_RECORD_PLANES ? WEIR_OK
                                   : weir_lesson_damaged("there is not one mean a channel");
}

static weir_err get(const void *self, const weir_data_pick *pick, weir_data_batch *batch)
{
    const cifar10 *s = self;

    for (int i = 0; i < pick->n; i++) {
        record from = s->at[pick->part][pick->index[i]];
        float *x = batch->x + (size_t)i * WEIR_RECORD_PLANES * WEIR_RECORD_PLANE;
        batch->label[i] = from[0];
        for (int k = 0; k < WEIR_RECORD_PLANES * WEIR_RECORD_PLANE; k++)
            x[k] = s->channel[k / WEIR_RECORD_PLANE].byte[from[1 + k]];
        if (s->augment && pick->part == WEIR_DATA_TRAIN)
            weir_augment(x, shape, pick, i);
    }
    batch->n = pick->n;
    return WEIR_OK;
}

/* Record by record: how they are cut into files does not matter. */
static uint64_t hash(const void *self, weir_data_part part)
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
    {"dir", WEIR_OPT_TEXT, offsetof(cifar10, dir), NULL, "where the files are", .bare = true,
     .path = true},
    {"augment", WEIR_OPT_BOOL, offsetof(cifar10, augment), "no",
     .help = "crop and flip training pictures at random"},
    WEIR_DATA_LIMITS(cifar10),
    {0},
};

const weir_data weir_data_cifar10 = {
    .plug = {"cifar10", "pictures in CIFAR-10's binary batches", sizeof(cifar10), options},
    .open = open_cifar10,
    .lessons = lessons,
    .get = get,
    .hash = hash,
    .close = close_cifar10,
};
