/* idx.c - labelled samples in IDX files, as MNIST has them: DIR/train-images-*, train-labels-*, and t10k-* or test-*, each plain or
 * gzipped. Pictures (n, height, width) or (n, channels, height, width), or plain vectors (n, features). */
#include "core/file.h"
#include "data/data.h"
#include "data/standard.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct idx {
    const char *dir;
    int64_t limit[WEIR_PARTS]; /* 0: all there are */
    weir_array input[WEIR_PARTS], label[WEIR_PARTS];
    weir_standard standard;
    char *bytes[2 * WEIR_PARTS]; /* of the four files, ours to free */
    int files;
} idx;

/* ---- finding the files ---- */

/* Names are "train-images" and what follows a - or a dot: "train-images-idx3-ubyte.gz". */
static bool fits(const char *file, const char *name)
{
    size_t n = strlen(name);

    return !strncmp(file, name, n) && (file[n] == '-' || file[n] == '.');
}

/* Of a file and the same gzipped, the plain one; of two others nobody knows which is meant. */
static weir_err choose(const char *dir, char *chosen, const char *file)
{
    size_t n = strlen(chosen), m = strlen(file);

    if (!n || (n == m + 3 && !strncmp(chosen, file, m) && !strcmp(chosen + m, ".gz"))) {
        snprintf(chosen, NAME_MAX + 1, "%s", file);
        return WEIR_OK;
    }
    if (m == n + 3 && !strncmp(chosen, file, n) && !strcmp(file + n, ".gz"))
        return WEIR_OK;
    return weir_fail(WEIR_INVALID, "%s: both %s and %s are there, one of them was expected", dir, chosen, file);
}

/* The path of the one file with one of the two names; the second may be NULL. */
static weir_err find_file(const char *dir, const char *name, const char *other, weir_arena *a, const char **path)
{
    char chosen[NAME_MAX + 1] = "", text[PATH_MAX];
    weir_err err = WEIR_OK;
    DIR *d = opendir(dir);

    if (!d)
        return weir_fail(WEIR_INVALID, "%s: no directory with data could be opened: %s", dir, strerror(errno));
    for (struct dirent *e; !err && (e = readdir(d));)
        if (fits(e->d_name, name) || (other && fits(e->d_name, other)))
            err = choose(dir, chosen, e->d_name);
    closedir(d);
    WEIR_TRY(err);
    if (!chosen[0])
        return weir_fail(WEIR_INVALID, "%s: there is no %s-*%s%s%s, plain or .gz", dir, name, other ? " or " : "", other ? other : "",
                         other ? "-*" : "");
    if (snprintf(text, sizeof text, "%s/%s", dir, chosen) >= (int)sizeof text)
        return weir_fail(WEIR_INVALID, "%s: the path is too long", dir);
    return (*path = weir_copy_text(a, text)) ? WEIR_OK : weir_fail_nomem(strlen(text));
}

static weir_err load(idx *s, const char *name, const char *other, weir_arena *a, weir_array *array)
{
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE), n; /* values are kept in memory: no more than that */
    const char *path;
    char *bytes;

    WEIR_TRY(find_file(s->dir, name, other, a, &path));
    WEIR_TRY(weir_file_read(path, memory, &bytes, &n));
    s->bytes[s->files++] = bytes;
    return weir_array_parse(path, bytes, n, array);
}

/* ---- what they must have in common ---- */

static weir_err check_input(const weir_array *in)
{
    if (in->dims < 2)
        return weir_fail(WEIR_INVALID, "%s: %d dimension was found; samples have 2 (n, features), 3 (n, height, width) or 4 "
                         "(n, channels, height, width)", in->name, in->dims);
    return WEIR_OK;
}

static void show_shape(const weir_array *a, char *text, size_t room)
{
    size_t n = 0;

    for (int i = 1; i < a->dims && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%llu", i > 1 ? "x" : "", (unsigned long long)a->dim[i]);
}

static weir_err check_same(const weir_array *train, const weir_array *test)
{
    bool same = train->dims == test->dims;
    char found[96], wanted[96];

    for (int i = 1; same && i < train->dims; i++)
        same = train->dim[i] == test->dim[i];
    show_shape(test, found, sizeof found);
    show_shape(train, wanted, sizeof wanted);
    if (!same)
        return weir_fail(WEIR_INVALID, "%s: samples of %s were found, %s was expected, as in %s", test->name, found, wanted, train->name);
    if (train->type != test->type)
        return weir_fail(WEIR_INVALID, "%s: values of type %02x were found, %02x was expected, as in %s", test->name, test->type,
                         train->type, train->name);
    return WEIR_OK;
}

static void tell_facts(const idx *s, int64_t classes, weir_data_facts *facts)
{
    const weir_array *in = &s->input[WEIR_TRAIN];

    *facts = (weir_data_facts){.target = WEIR_CLASSES, .classes = classes, .dims = in->dims == 2 ? 1 : 3, .dim = {1, 1, 1, 1}};
    for (int i = 1; i < in->dims; i++)
        facts->dim[facts->dims - in->dims + i] = (int64_t)in->dim[i];
    for (int part = 0; part < WEIR_PARTS; part++) {
        uint64_t n = s->input[part].dim[0], limit = (uint64_t)s->limit[part];
        facts->count[part] = limit && limit < n ? limit : n;
    }
}

/* ---- the verbs ---- */

/* The limits shorten the parts but change no sample: classes, mean and deviation are those of the whole files. */
static weir_err open_idx(void *self, weir_arena *a, weir_data_facts *facts)
{
    idx *s = self;
    int64_t classes = 0;

    if (!s->dir || !s->dir[0])
        return weir_fail(WEIR_USAGE, "data idx: a directory was expected, as in idx:DIR");
    WEIR_TRY(load(s, "train-images", NULL, a, &s->input[WEIR_TRAIN]));
    WEIR_TRY(load(s, "train-labels", NULL, a, &s->label[WEIR_TRAIN]));
    WEIR_TRY(load(s, "t10k-images", "test-images", a, &s->input[WEIR_TEST]));
    WEIR_TRY(load(s, "t10k-labels", "test-labels", a, &s->label[WEIR_TEST]));
    for (int part = 0; part < WEIR_PARTS; part++) {
        WEIR_TRY(check_input(&s->input[part]));
        WEIR_TRY(weir_array_labels(&s->input[part], &s->label[part], &classes));
    }
    WEIR_TRY(check_same(&s->input[WEIR_TRAIN], &s->input[WEIR_TEST]));
    weir_standard_fit(&s->standard, &s->input[WEIR_TRAIN]);
    for (int part = 0; part < WEIR_PARTS; part++)
        WEIR_TRY(weir_standard_check(&s->standard, &s->input[part]));
    tell_facts(s, classes, facts);
    return WEIR_OK;
}

static weir_err get(const void *self, const weir_pick *pick, weir_batch *batch)
{
    const idx *s = self;
    const weir_array *in = &s->input[pick->part];

    for (int i = 0; i < pick->n; i++) {
        weir_standard_sample(&s->standard, in, pick->index[i], batch->x + (size_t)i * in->width);
        batch->label[i] = weir_array_int(&s->label[pick->part], pick->index[i]);
    }
    batch->n = pick->n;
    return WEIR_OK;
}

static void close_idx(void *self)
{
    idx *s = self;

    while (s->files > 0)
        free(s->bytes[--s->files]);
}

static const weir_opt options[] = {
    {"dir", WEIR_OPT_TEXT, offsetof(idx, dir), NULL, "where the files are", .bare = true},
    {"limit", WEIR_OPT_INT, offsetof(idx, limit[WEIR_TRAIN]), "0", "training samples used; 0: all", .min = 0, .max = 1e18},
    {"test_limit", WEIR_OPT_INT, offsetof(idx, limit[WEIR_TEST]), "0", "test samples used; 0: all", .min = 0, .max = 1e18},
    {0},
};

const weir_data weir_data_idx = {
    .plug = {"idx", "samples and labels in IDX files, as MNIST has them", sizeof(idx), options},
    .open = open_idx,
    .get = get,
    .close = close_idx,
};
