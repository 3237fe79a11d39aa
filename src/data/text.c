/* text.c - plain text as tokens: words or characters, numbered as the training text brings them. A
 * directory has one file for each part, named after it (ptb.train.txt, ptb.valid.txt.gz...); of a
 * lone file nine tenths are for training. */
#include "data/files.h"
#include "data/sequence.h"
#include "data/words.h"
#include <stdlib.h>
#include <string.h>

typedef struct text {
    weir_sequences q;
    const char *path;
    int unit;
} text;

/* ---- which files ---- */

/* Endings of plain text: none, a usual one, or one that holds the word itself, as in ptb.train;
 * each may be followed by .gz. */
static bool is_plain(const char *name, const char *word)
{
    static const char *const endings[] = {".txt", ".text", ".tokens", ".raw"};
    size_t n = strlen(name), m;
    const char *dot;

    if (n > 3 && !strcmp(name + n - 3, ".gz"))
        n -= 3;
    if (!(dot = memrchr(name, '.', n)))
        return true;
    m = (size_t)(name + n - dot);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strlen(endings[i]) == m && !strncmp(dot, endings[i], m))
            return true;
    return memmem(dot, m, word, strlen(word));
}

/* What a name says it is; one that says more, as "latest.train.txt" does, is the first of these. */
static bool is_part(const char *name, const char *word)
{
    static const char *const parts[] = {"train", "valid", "test"};
    int i = 0;

    while (i < 3 && !strstr(name, parts[i]))
        i++;
    return i < 3 && !strcmp(parts[i], word) && is_plain(name, word);
}

/* ---- from text to numbers ---- */

/* The next `n` units of the reader, at the end of one of the parts; with `learn` they join the
 * vocabulary. */
static weir_err number(weir_reader *r, uint64_t n, weir_words *words, bool learn, uint32_t *to)
{
    for (uint64_t i = 0; i < n && weir_reader_next(r); i++)
        WEIR_TRY(learn ? weir_words_add(words, r->unit, r->n, &to[i])
                       : weir_words_find(words, r, &to[i]));
    return WEIR_OK;
}

static weir_err make_part(text *t, int part, weir_reader *r, uint64_t n, weir_words *words)
{
    uint32_t *made = malloc((n ? n : 1) * sizeof *made), unused;

    if (!made)
        return weir_fail_nomem(n * sizeof *made);
    free(t->q.memory[part]);
    t->q.memory[part] = made;
    t->q.part[part] = (weir_sequence){.name = r->name, .token = made, .width = 4, .tokens = n};
    WEIR_TRY(number(r, n, words, part == WEIR_TRAIN, made));
    if (part == WEIR_TRAIN && t->unit == WEIR_UNIT_WORD) /* even a text of one line has an end */
        return weir_words_add(words, "<eos>", 5, &unused);
    return WEIR_OK;
}

static weir_err open_reader(const text *t, const char *path, char **bytes, weir_reader *r,
                            uint64_t *n)
{
    size_t length;

    WEIR_TRY(weir_files_read(path, bytes, &length));
    *r = weir_reader_at(path, *bytes, length, (weir_unit)t->unit);
    *n = weir_reader_count(*r);
    return *n ? WEIR_OK : weir_fail(WEIR_INVALID, "%s: there is no text in it", path);
}

/* A whole file as a part. The training text stays, as the vocabulary points into it. */
static weir_err load(text *t, int part, const char *path, weir_words *words, char **bytes)
{
    weir_reader r;
    uint64_t n;

    WEIR_TRY(open_reader(t, path, bytes, &r, &n));
    return make_part(t, part, &r, n, words);
}

/* ---- the verbs ---- */

enum { TRAIN, VALID, TEST, FILES };

/* All files are read and checked; the test part is `valid` where there is no `test`. */
static weir_err load_dir(text *t, weir_arena *a, weir_words *words, char *bytes[FILES])
{
    const char *path[FILES];

    WEIR_TRY(weir_files_one(t->path, is_part, "train",
                            "*train* (.txt, .text, .tokens, .raw or no ending)", a, &path[TRAIN]));
    WEIR_TRY(weir_files_one(t->path, is_part, "valid", NULL, a, &path[VALID]));
    WEIR_TRY(weir_files_one(t->path, is_part, "test",
                            path[VALID]
                                ? NULL
                                : "*test* or *valid* (.txt, .text, .tokens, .raw or no ending)",
                            a, &path[TEST]));
    WEIR_TRY(load(t, WEIR_TRAIN, path[TRAIN], words, &bytes[TRAIN]));
    if (path[VALID])
        WEIR_TRY(load(t, WEIR_TEST, path[VALID], words, &bytes[VALID]));
    return path[TEST] ? load(t, WEIR_TEST, path[TEST], words, &bytes[TEST]) : WEIR_OK;
}

static weir_err load_file(text *t, weir_words *words, char **bytes)
{
    weir_reader r;
    uint64_t n;

    WEIR_TRY(open_reader(t, t->path, bytes, &r, &n));
    WEIR_TRY(make_part(t, WEIR_TRAIN, &r, weir_sequences_split(n), words));
    return make_part(t, WEIR_TEST, &r, n - weir_sequences_split(n), words);
}

static weir_err open_text(void *self, const weir_data_need *need, weir_arena *a,
                          weir_data_facts *facts)
{
    text *t = self;
    weir_words words = {0};
    char *bytes[FILES] = {0};
    weir_err err;

    if (!t->path || !t->path[0])
        return weir_fail(WEIR_USAGE,
                         "data text: a directory or a file was expected, as in text:DIR");
    err = weir_files_is_dir(t->path) ? load_dir(t, a, &words, bytes)
                                     : load_file(t, &words, &bytes[TRAIN]);
    if (!err)
        err = weir_sequences_cut(&t->q, need, (int64_t)words.count, facts);
    weir_words_free(&words);
    for (int i = 0; i < FILES; i++)
        free(bytes[i]);
    return err;
}

static const weir_opt options[] = {
    {"path", WEIR_OPT_TEXT, offsetof(text, path), NULL,
     "a directory with files named train, valid, test; or one file", .bare = true},
    {"unit", WEIR_OPT_CHOICE, offsetof(text, unit), "word", "what a token is",
     .choices = "word|char"},
    {"length", WEIR_OPT_INT, offsetof(text, q.length), "35", "tokens of a window", .min = 1,
     .max = 1 << 24},
    {0},
};

const weir_data weir_data_text = {
    .plug = {"text", "plain text by words or characters", sizeof(text), options},
    .open = open_text,
    .get = weir_sequences_get,
    .close = weir_sequences_close,
};
