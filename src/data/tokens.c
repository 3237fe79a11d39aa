/* tokens.c - text that others have made into tokens, in llm.c's or nanoGPT's files: one, of which
 * nine tenths are for training, or a directory with some whose names contain "train" and some with
 * "val", as shards that follow one another. */
#include "data/files.h"
#include "data/sequence.h"
#include "data/token_file.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_VOCABULARY = 100000000 };

typedef struct tokens {
    weir_sequences q;
    const char *path;
    int64_t vocabulary; /* 0: as the tokens show, which then say it here */
    uint32_t most;
    uint64_t file; /* a hash of the lone file that the run was trained on; 0: there were several */
} tokens;

static bool is_shard(const char *name, const char *word)
{
    return strstr(name, word) && weir_files_end(name, ".bin");
}

/* Puts the tokens of one more file behind those that are there. */
static weir_err append(tokens *t, int part, const weir_token_file *f)
{
    weir_sequence *s = &t->q.part[part];
    size_t width = (size_t)f->width, room = (s->tokens + f->tokens) * width;
    char *memory;

    if (s->width && s->width != f->width)
        return weir_fail(WEIR_INVALID,
                         "%s: tokens of %d bytes were found, %d was expected, as in %s", f->name,
                         f->width, s->width, s->name);
    if (!(memory = realloc(t->q.memory[part], room)))
        return weir_fail_nomem(room);
    t->q.memory[part] = memory;
    WEIR_TRY(weir_token_file_copy(f, memory + s->tokens * width,
                                  (uint64_t)(t->vocabulary ? t->vocabulary : MOST_VOCABULARY),
                                  &t->most));
    *s = (weir_sequence){.name = f->name,
                         .token = memory,
                         .width = f->width,
                         .tokens = s->tokens + f->tokens};
    return WEIR_OK;
}

static weir_err load(tokens *t, int part, const char *path)
{
    weir_token_file f;
    char *bytes;
    size_t n;
    weir_err err;

    WEIR_TRY(weir_files_read(path, &bytes, &n));
    err = weir_token_file_parse(path, bytes, n, &f);
    if (!err)
        err = append(t, part, &f);
    free(bytes);
    return err;
}

static weir_err load_dir(tokens *t, int part, const char *word, weir_arena *a)
{
    weir_files found;

    WEIR_TRY(weir_files_find(t->path, is_shard, word, a, &found));
    if (!found.n)
        return weir_fail(WEIR_INVALID, "%s: there is no *%s*.bin, plain or .gz", t->path, word);
    for (int i = 0; i < found.n; i++)
        WEIR_TRY(load(t, part, found.path[i]));
    return WEIR_OK;
}

/* Nine tenths of a lone file are for training; of one that a run is evaluated on, and that it was
 * not trained on, nothing is. */
static weir_err load_file(tokens *t, const weir_data_need *need)
{
    weir_sequence *train = &t->q.part[WEIR_DATA_TRAIN], *test = &t->q.part[WEIR_DATA_TEST];
    uint64_t hash, cut;

    WEIR_TRY(load(t, WEIR_DATA_TRAIN, t->path));
    hash = weir_sequences_hash(t, WEIR_DATA_TRAIN);
    cut = need->test_only && hash != t->file ? 0 : weir_sequences_split(train->tokens);
    t->file = hash;
    *test = *train;
    test->token = (const char *)train->token + cut * (uint64_t)train->width;
    test->tokens -= cut;
    train->tokens = cut;
    return WEIR_OK;
}

static weir_err load_parts(tokens *t, const weir_data_need *need, weir_arena *a)
{
    if (!weir_files_is_dir(t->path))
        return load_file(t, need);
    t->file = 0;
    if (!need->test_only)
        WEIR_TRY(load_dir(t, WEIR_DATA_TRAIN, "train", a));
    return load_dir(t, WEIR_DATA_TEST, "val", a);
}

static weir_err open_tokens(void *self, const weir_data_need *need, weir_arena *a,
                            weir_data_facts *facts)
{
    tokens *t = self;

    if (!t->path || !t->path[0])
        return weir_fail(WEIR_USAGE,
                         "data tokens: a file or a directory was expected, as in tokens:FILE");
    WEIR_TRY(load_parts(t, need, a));
    if (!t->vocabulary)
        t->vocabulary = (int64_t)t->most + 1;
    return weir_sequences_cut(&t->q, need, t->vocabulary, facts);
}

static weir_err lessons(void *self, weir_lesson *l)
{
    tokens *t = self;

    WEIR_TRY(weir_lesson_option(l, "length", false));
    WEIR_TRY(weir_lesson_count(l, "vocab", &t->vocabulary, MOST_VOCABULARY));
    return weir_lesson_hash(l, "file", &t->file);
}

static const weir_opt options[] = {
    {"path", WEIR_OPT_TEXT, offsetof(tokens, path), NULL,
     "a file of tokens, or a directory of some", .bare = true, .path = true},
    {"length", WEIR_OPT_INT, offsetof(tokens, q.length), "128", "tokens of a window", .min = 1,
     .max = 1 << 24},
    {"vocab", WEIR_OPT_INT, offsetof(tokens, vocabulary), "0",
     "how many tokens there are; 0: the largest found and one", .min = 0, .max = MOST_VOCABULARY},
    {0},
};

const weir_data weir_data_tokens = {
    .plug = {"tokens", "tokens in llm.c's or nanoGPT's files", sizeof(tokens), options},
    .open = open_tokens,
    .lessons = lessons,
    .get = weir_sequences_get,
    .hash = weir_sequences_hash,
    .close = weir_sequences_close,
};
