/* frames.c - speech: each frame with those around it, and the state it is in. DIR/train-frames-*,
 * train-frame-labels-*, train-utts-* and test-*, in IDX, each plain or gzipped. Where the window
 * reaches over an utterance's end its last frame is repeated; it never shows the next one. Each
 * feature is standardised by itself. */
#include "data/data.h"
#include "data/files.h"
#include "data/standard.h"
#include "data/utterances.h"
#include <stdio.h>
#include <stdlib.h>

enum { FILES = 3 };

typedef struct frames {
    const char *dir;
    int64_t window, limit[WEIR_DATA_PARTS];
    int64_t classes; /* 0: as the training labels show, which then say it here */
    weir_array frame[WEIR_DATA_PARTS], label[WEIR_DATA_PARTS], utt[WEIR_DATA_PARTS];
    int64_t type;      /* of the training part's values */
    weir_scale *scale; /* one for each feature */
    uint64_t features;
    weir_standard *feature;
    char *bytes[FILES * WEIR_DATA_PARTS]; /* of the files, ours to free */
    int files;
} frames;

static weir_err load(frames *s, const char *word, weir_arena *a, weir_array *array)
{
    char wanted[64], **bytes = &s->bytes[s->files];
    weir_err err;

    snprintf(wanted, sizeof wanted, "%s-*", word);
    err = weir_array_load(s->dir, word, wanted, a, bytes, array);
    s->files += *bytes != NULL;
    return err;
}

static weir_err load_part(frames *s, int part, const char *const name[FILES], weir_arena *a)
{
    WEIR_TRY(load(s, name[0], a, &s->frame[part]));
    WEIR_TRY(load(s, name[1], a, &s->label[part]));
    WEIR_TRY(load(s, name[2], a, &s->utt[part]));
    WEIR_TRY(weir_utterances_check(&s->frame[part], &s->utt[part]));
    return weir_array_labels(&s->frame[part], &s->label[part], &s->classes);
}

/* What the training part teaches. */
static weir_err learn(frames *s, weir_arena *a)
{
    const weir_array *train = &s->frame[WEIR_DATA_TRAIN];

    s->type = train->type;
    s->features = train->width;
    if (!(s->scale = WEIR_NEW(a, weir_scale, s->features)))
        return weir_fail_nomem(s->features * sizeof *s->scale);
    for (uint64_t f = 0; f < s->features; f++)
        s->scale[f] = weir_scale_fit(train, f, s->features);
    return WEIR_OK;
}

static weir_err check_part(const frames *s, const weir_array *in)
{
    if (in->width != s->features || (int64_t)in->type != s->type)
        return weir_fail(WEIR_INVALID,
                         "%s: frames of %llu values of type %02x were found; %llu of type %02x "
                         "were expected, as in the training part",
                         in->name, (unsigned long long)in->width, in->type,
                         (unsigned long long)s->features, (unsigned)s->type);
    for (uint64_t f = 0; f < s->features; f++)
        WEIR_TRY(weir_standard_check(&s->feature[f], in, f, s->features));
    return WEIR_OK;
}

static weir_err standardise(frames *s, int first, weir_arena *a)
{
    if (!(s->feature = WEIR_NEW(a, weir_standard, s->features)))
        return weir_fail_nomem(s->features * sizeof *s->feature);
    for (uint64_t f = 0; f < s->features; f++)
        weir_standard_set(&s->feature[f], s->scale[f]);
    for (int part = first; part < WEIR_DATA_PARTS; part++)
        WEIR_TRY(check_part(s, &s->frame[part]));
    return WEIR_OK;
}

/* The limits shorten the parts but change no sample. */
static weir_err open_frames(void *self, const weir_data_need *need, weir_arena *a,
                            weir_data_facts *facts)
{
    static const char *const name[WEIR_DATA_PARTS][FILES] = {{"train-frames", "train-frame-labels",
                                                              "train-utts"},
                                                             {"test-frames", "test-frame-labels",
                                                              "test-utts"}};
    frames *s = self;
    int first = need->test_only ? WEIR_DATA_TEST : WEIR_DATA_TRAIN;
    weir_data_facts made = {.target = WEIR_TARGET_CLASSES, .dims = 1, .dim = {1, 1, 1, 1}};

    if (!s->dir || !s->dir[0])
        return weir_fail(WEIR_USAGE, "data frames: a directory was expected, as in frames:DIR");
    if (s->window % 2 == 0)
        return weir_fail(
            WEIR_USAGE,
            "data frames: window=%lld: an odd number was expected, as many frames before as behind",
            (long long)s->window);
    for (int part = first; part < WEIR_DATA_PARTS; part++) {
        WEIR_TRY(load_part(s, part, name[part], a));
        made.count[part] = weir_data_limited(s->limit[part], s->frame[part].dim[0]);
    }
    if (!need->lessons)
        WEIR_TRY(learn(s, a));
    WEIR_TRY(standardise(s, first, a));
    made.classes = s->classes;
    made.dim[0] = s->window * (int64_t)s->features;
    *facts = made;
    return WEIR_OK;
}

static weir_err lessons(void *self, weir_lesson *l)
{
    frames *s = self;

    WEIR_TRY(weir_lesson_option(l, "window", true));
    WEIR_TRY(weir_lesson_count(l, "classes", &s->classes, WEIR_ARRAY_CLASSES));
    WEIR_TRY(weir_lesson_number(l, "type", &s->type, WEIR_ARRAY_U8, WEIR_ARRAY_F32));
    return weir_lesson_scales(l, &s->scale, &s->features);
}

static void make_window(const frames *s, int part, uint64_t at, float *x)
{
    const weir_array *in = &s->frame[part];
    int64_t half = s->window / 2;
    uint64_t first, last;

    weir_utterances_span(&s->utt[part], at, &first, &last);
    for (int64_t w = -half; w <= half; w++) {
        int64_t frame = (int64_t)at + w;
        frame = frame < (int64_t)first  ? (int64_t)first
                : frame > (int64_t)last ? (int64_t)last
                                        : frame;
        for (uint64_t f = 0; f < in->width; f++)
            *x++ = weir_standard_value(&s->feature[f], in, (uint64_t)frame * in->width + f);
    }
}

static weir_err get(const void *self, const weir_data_pick *pick, weir_data_batch *batch)
{
    const frames *s = self;
    uint64_t width = (uint64_t)s->window * s->frame[pick->part].width;

    for (int i = 0; i < pick->n; i++) {
        make_window(s, pick->part, pick->index[i], batch->x + (uint64_t)i * width);
        batch->label[i] = weir_array_int(&s->label[pick->part], pick->index[i]);
    }
    batch->n = pick->n;
    return WEIR_OK;
}

static uint64_t hash(const void *self, weir_data_part part)
{
    const frames *s = self;
    uint64_t h = weir_array_hash(&s->label[part], weir_array_hash(&s->frame[part], 0));

    return weir_array_hash(&s->utt[part], h);
}

static void close_frames(void *self)
{
    frames *s = self;

    while (s->files > 0)
        free(s->bytes[--s->files]);
}

static const weir_opt options[] = {
    {"dir", WEIR_OPT_TEXT, offsetof(frames, dir), NULL, "where the files are", .bare = true,
     .path = true},
    {"window", WEIR_OPT_INT, offsetof(frames, window), "11", "frames seen at once, an odd number",
     .min = 1, .max = 10001},
    {"classes", WEIR_OPT_INT, offsetof(frames, classes), "0",
     "how many; 0: as the training labels show", .min = 0, .max = WEIR_ARRAY_CLASSES},
    WEIR_DATA_LIMITS(frames),
    {0},
};

const weir_data weir_data_frames = {
    .plug = {"frames", "speech frames with a window of their neighbours", sizeof(frames), options},
    .open = open_frames,
    .lessons = lessons,
    .get = get,
    .hash = hash,
    .close = close_frames,
};
