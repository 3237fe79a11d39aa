/* idx.c - labelled samples in IDX files, as MNIST has them: DIR/train-images-*, train-labels-*, and
 * t10k-* or test-*, each plain or gzipped. Pictures (n, height, width) or (n, channels, height,
 * width), or plain vectors (n, features). */
#include "data/augment.h"
#include "data/data.h"
#include "data/files.h"
#include "data/standard.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct idx {
    const char *dir;
    int64_t limit[WEIR_DATA_PARTS]; /* 0: all there are */
    int64_t classes;                /* 0: as the training labels show, which then say it here */
    bool augment;
    int64_t dim[3];
    weir_array input[WEIR_DATA_PARTS], label[WEIR_DATA_PARTS];
    weir_array like; /* type and sizes of a sample: the training part's */
    weir_scale *scale;
    weir_standard standard;
    char *bytes[2 * WEIR_DATA_PARTS]; /* of the four files, ours to free */
    int files;
} idx;

static weir_err load(idx *s, const char *word, const char *wanted, weir_arena *a, weir_array *array)
{
    char **bytes = &s->bytes[s->files];
    weir_err err = weir_array_load(s->dir, word, wanted, a, bytes, array);

    s->files += *bytes != NULL;
    return err;
}

/* ---- what they must have in common ---- */

static weir_err check_input(const weir_array *in)
{
    if (in->dims < 2)
        return weir_fail(
            WEIR_INVALID,
            "%s: %d dimension was found; samples have 2 (n, features), 3 (n, height, width) or 4 "
            "(n, channels, height, width)",
            in->name, in->dims);
    return WEIR_OK;
}

static void show_shape(const weir_array *a, char *text, size_t room)
{
    size_t n = 0;

    for (int i = 1; i < a->dims && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%llu", i > 1 ? "x" : "",
                              (unsigned long long)a->dim[i]);
}

/* Whether the array's samples are like those of the training part. */
static weir_err check_like(const idx *s, const weir_array *in)
{
    const weir_array *like = &s->like;
    bool same = like->dims == in->dims;
    char found[96], wanted[96];

    for (int i = 1; same && i < in->dims; i++)
        same = like->dim[i] == in->dim[i];
    show_shape(in, found, sizeof found);
    show_shape(like, wanted, sizeof wanted);
    if (!same)
        return weir_fail(WEIR_INVALID, "%s: samples of %s were found, %s was expected, as in %s",
                         in->name, found, wanted, like->name);
    if (like->type != in->type)
        return weir_fail(WEIR_INVALID,
                         "%s: values of type %02x were found, %02x was expected, as in %s",
                         in->name, in->type, like->type, like->name);
    return WEIR_OK;
}

static weir_err tell_facts(idx *s, weir_data_facts *facts)
{
    const weir_array *in = &s->like;

    if (s->augment && in->dims == 2)
        return weir_fail(
            WEIR_MISFIT,
            "data idx: augment=yes needs pictures; the samples of %s have one dimension", in->name);
    *facts = (weir_data_facts){.target = WEIR_TARGET_CLASSES,
                               .classes = s->classes,
                               .dims = in->dims == 2 ? 1 : 3,
                               .dim = {1, 1, 1, 1}};
    for (int i = 1; i < in->dims; i++)
        facts->dim[facts->dims - in->dims + i] = (int64_t)in->dim[i];
    memcpy(s->dim, facts->dim, sizeof s->dim);
    for (int part = 0; part < WEIR_DATA_PARTS; part++)
        facts->count[part] = weir_data_limited(s->limit[part], s->input[part].dim[0]);
    return WEIR_OK;
}

/* ---- the verbs ---- */

static weir_err load_part(idx *s, int part, weir_arena *a)
{
    static const char *const name[WEIR_DATA_PARTS][2] = {{"train-images", "train-labels"},
                                                         {"t10k-images|test-images",
                                                          "t10k-labels|test-labels"}};
    static const char *const wanted[WEIR_DATA_PARTS][2] = {{"train-images-*", "train-labels-*"},
                                                           {"t10k-images-* or test-images-*",
                                                            "t10k-labels-* or test-labels-*"}};

    WEIR_TRY(load(s, name[part][0], wanted[part][0], a, &s->input[part]));
    WEIR_TRY(load(s, name[part][1], wanted[part][1], a, &s->label[part]));
    WEIR_TRY(check_input(&s->input[part]));
    return weir_array_labels(&s->input[part], &s->label[part], &s->classes);
}

/* What the training part teaches. */
static weir_err learn(idx *s, weir_arena *a)
{
    s->like = s->input[WEIR_DATA_TRAIN];
    if (!(s->scale = WEIR_NEW(a, weir_scale, 1)))
        return weir_fail_nomem(sizeof *s->scale);
    *s->scale = weir_scale_fit(&s->input[WEIR_DATA_TRAIN], 0, 1);
    return WEIR_OK;
}

/* The limits shorten the parts but change no sample: classes, mean and deviation are those of the
 * whole files. */
static weir_err open_idx(void *self, const weir_data_need *need, weir_arena *a,
                         weir_data_facts *facts)
{
    idx *s = self;
    int first = need->test_only ? WEIR_DATA_TEST : WEIR_DATA_TRAIN;

    if (!s->dir || !s->dir[0])
        return weir_fail(WEIR_USAGE, "data idx: a directory was expected, as in idx:DIR");
    for (int part = first; part < WEIR_DATA_PARTS; part++)
        WEIR_TRY(load_part(s, part, a));
    if (!need->lessons)
        WEIR_TRY(learn(s, a));
    weir_standard_set(&s->standard, *s->scale);
    for (int part = first; part < WEIR_DATA_PARTS; part++) {
        WEIR_TRY(check_like(s, &s->input[part]));
        WEIR_TRY(weir_standard_check(&s->standard, &s->input[part], 0, 1));
    }
    return tell_facts(s, facts);
}

static weir_err lessons(void *self, weir_lesson *l)
{
    idx *s = self;
    int64_t type = s->like.type;
    int dims = s->like.dims - 1;
    uint64_t scales = 1;

    WEIR_TRY(weir_lesson_count(l, "classes", &s->classes, WEIR_ARRAY_CLASSES));
    WEIR_TRY(weir_lesson_number(l, "type", &type, WEIR_ARRAY_U8, WEIR_ARRAY_F32));
    WEIR_TRY(weir_lesson_sizes(l, "shape", s->like.dim + 1, &dims, 3));
    WEIR_TRY(weir_lesson_scales(l, &s->scale, &scales));
    if (l->reading)
        s->like.name = "the run's training part";
    s->like.type = (weir_array_type)type;
    s->like.dims = dims + 1;
    return scales == 1 ? WEIR_OK : weir_lesson_damaged("there is not one mean for all values");
}

static weir_err get(const void *self, const weir_data_pick *pick, weir_data_batch *batch)
{
    const idx *s = self;
    const weir_array *in = &s->input[pick->part];

    for (int i = 0; i < pick->n; i++) {
        float *x = batch->x + (size_t)i * in->width;
        weir_standard_sample(&s->standard, in, pick->index[i], x);
        if (s->augment && pick->part == WEIR_DATA_TRAIN)
            weir_augment(x, s->dim, pick, i);
        batch->label[i] = weir_array_int(&s->label[pick->part], pick->index[i]);
    }
    batch->n = pick->n;
    return WEIR_OK;
}

static uint64_t hash(const void *self, weir_data_part part)
{
    const idx *s = self;

    return weir_array_hash(&s->label[part], weir_array_hash(&s->input[part], 0));
}

static void close_idx(void *self)
{
    idx *s = self;

    while (s->files > 0)
        free(s->bytes[--s->files]);
}

static const weir_opt options[] = {
    {"dir", WEIR_OPT_TEXT, offsetof(idx, dir), NULL, "where the files are", .bare = true,
     .path = true},
    {"augment", WEIR_OPT_BOOL, offsetof(idx, augment), "no",
     .help = "crop and flip training pictures at random"},
    {"classes", WEIR_OPT_INT, offsetof(idx, classes), "0",
     "how many; 0: as the training labels show", .min = 0, .max = WEIR_ARRAY_CLASSES},
    WEIR_DATA_LIMITS(idx),
    {0},
};

const weir_data weir_data_idx = {
    .plug = {"idx", "samples and labels in IDX files, as MNIST has them", sizeof(idx), options},
    .open = open_idx,
    .lessons = lessons,
    .get = get,
    .hash = hash,
    .close = close_idx,
};
