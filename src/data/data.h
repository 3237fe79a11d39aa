/* data.h - samples by number. A data set has two parts; a sample's bytes depend on (part, index)
 * and, where asked for, on augmentation keyed by (seed, step, global sample), never on the worker.
 * Files are hostile: damaged ones give WEIR_INVALID and name the file, what was found and what was
 * expected. */
#ifndef WEIR_DATA_DATA_H
#define WEIR_DATA_DATA_H
#include "core/plug.h"
#include "core/rng.h"
#include "data/lesson.h"

typedef enum { WEIR_DATA_TRAIN, WEIR_DATA_TEST, WEIR_DATA_PARTS } weir_data_part;
/* metric: accuracy, perplexity, rmse */
typedef enum { WEIR_TARGET_CLASSES, WEIR_TARGET_TOKENS, WEIR_TARGET_VALUES } weir_data_target;

/* What a model needs to know of the data. */
typedef struct weir_data_facts {
    /* of one sample's input, without the batch: 3 for pictures (channels, height, width) */
    int dims;
    int64_t dim[4];
    weir_data_target target;
    int64_t classes; /* CLASSES: how many; TOKENS: the vocabulary; VALUES: targets a sample */
    /* the input is tokens (int32), not floats; dim[0] is the window's length */
    bool tokens_in;
    /* VALUES: what an error is multiplied by to be in the target's own unit; else 1 */
    double value_scale;
    uint64_t count[WEIR_DATA_PARTS];
    /* Samples that follow one another: sample s * windows + w is window w of stream s, where
     * windows = count / streams, and goes on where window w - 1 ended. 0: samples stand alone and
     * may be met in any order. */
    int64_t streams[WEIR_DATA_PARTS];
    /* of text: units that the vocabulary does not have. They are <unk>; where a run's vocabulary
     * lacks that too they are left out */
    uint64_t unknown[WEIR_DATA_PARTS];
    bool left_out;
} weir_data_facts;

/* Options of a kind whose state has `int64_t limit[WEIR_DATA_PARTS]`: parts are cut short, and that
 * changes no sample. */
#define WEIR_DATA_LIMITS(kind)                                                  \
    {"limit",                                                                   \
     WEIR_OPT_INT,                                                              \
     offsetof(kind, limit[WEIR_DATA_TRAIN]),                                    \
     "0",                                                                       \
     "training samples used; 0: all",                                           \
     .min = 0,                                                                  \
     .max = 1e18},                                                              \
    {                                                                           \
        "test_limit", WEIR_OPT_INT, offsetof(kind, limit[WEIR_DATA_TEST]), "0", \
            "test samples used; 0: all", .min = 0, .max = 1e18                  \
    }
/* So many of n samples are used. */
static inline uint64_t weir_data_limited(int64_t limit, uint64_t n)
{
    return limit && (uint64_t)limit < n ? (uint64_t)limit : n;
}

/* What data need to know of the run. */
typedef struct weir_data_need {
    /* samples a step, over all workers: text is cut into so many streams. 0: unknown, one stream */
    int64_t batch;
    /* What a run's training part taught, as weir_data_lessons gave it: taken instead of what
     * today's files teach. NULL: they teach. */
    const char *lessons;
    /* With lessons: the training part is not needed. Its files are not read, its count may be 0,
     * and a lone file that the run was not trained on is the test part, all of it. */
    bool test_only;
} weir_data_need;

/* Some samples, in memory of the caller's: x or token, and label or value, as the facts say; sized
 * for `room` samples. */
typedef struct weir_data_batch {
    int n, room;
    float *x;
    int32_t *token;
    int32_t *label;
    float *value;
} weir_data_batch;

/* Which samples: global places in a step, for randomness; indices in the part. */
typedef struct weir_data_pick {
    weir_data_part part;
    uint64_t seed, step;
    uint64_t first; /* the first one's number among the step's samples */
    const uint64_t *index;
    int n;
} weir_data_pick;

typedef struct weir_data {
    weir_plug plug;
    weir_err (*open)(void *self, const weir_data_need *, weir_arena *, weir_data_facts *);
    /* Lists what the training part taught: written after open, read before it (need->lessons says
     * whether). NULL: nothing. */
    weir_err (*lessons)(void *self, weir_lesson *);
    /* Fills batch->n = pick->n samples, in 0..batch->room; indices are below the part's count.
     * Changes no state: the loader's thread and one that evaluates may call it at the same time. */
    weir_err (*get)(const void *self, const weir_data_pick *, weir_data_batch *);
    /* A number that changes with any value, label or token of the part, read from memory at its
     * speed. Files packed, cut or laid elsewhere in another way give the same. NULL: samples are a
     * pure function of the options. A kind that reads its files as it goes pays one reading here,
     * or says in the docs what it does not look at. */
    uint64_t (*hash)(const void *self, weir_data_part);
    void (*close)(void *self); /* also after a failed open. NULL: nothing to do */
} weir_data;

typedef struct weir_data_use {
    const weir_data *data;
    void *self;
    const char *spec; /* with a set's name spelt out */
    weir_data_facts facts;
    /* of lessons that were taken: the parts of those that the run was trained on */
    struct weir_data_trained {
        uint64_t count, hash;
    } trained[WEIR_DATA_PARTS];
    /* what weir_data_hash found */
    uint64_t hash[WEIR_DATA_PARTS];
    bool hashed[WEIR_DATA_PARTS];
} weir_data_use;
/* `fashion-mnist` and other bare names of known sets stand for the spec of where they lie on this
 * machine. A need of NULL: nothing is known. */
weir_err weir_data_open(const char *spec, const weir_data_need *, weir_arena *, weir_data_use *);
void weir_data_close(weir_data_use *);
/* Of all that a part holds: equal on ranks that hold the same. Taken once. */
uint64_t weir_data_hash(weir_data_use *, weir_data_part);
/* What the training part taught, or the lessons said, as one text in the arena. */
weir_err weir_data_lessons(weir_data_use *, weir_arena *, const char **text);
/* Reads such a text, which may be anything, into the state of a kind that was made but not opened;
 * `use` has data, self and spec. WEIR_DAMAGED; WEIR_MISFIT: lessons of another kind. */
weir_err weir_data_learn(weir_data_use *use, const char *text, weir_arena *);
/* The spec with its relative paths put behind `dir`, which is absolute; names of sets stay, and so
 * does what a spec cannot say. Malloc'ed; NULL: no memory. */
char *weir_data_spec_from(const char *spec, const char *dir);
/* The spec with other paths where there is nothing any more: what lies under a path's last names,
 * as many of them as can be, from the current directory or from `beside`. Malloc'ed; NULL: nothing
 * of the kind is there, or no memory. */
char *weir_data_spec_near(const char *spec, const char *beside);
/* The sets that are known by name, for `weir list`. */
void weir_data_print_sets(FILE *);
/* Memory for `room` samples of these facts. */
weir_err weir_data_batch_new(const weir_data_facts *, int room, weir_arena *, weir_data_batch *);

#define X(name) extern const weir_data weir_data_##name;
#include "data/list.h"
#undef X
extern weir_plugs weir_datas;
#endif
