/* text.c - plain text as tokens: words or characters, numbered as the training text brings them. A
 * directory has one file for each part, named after it (ptb.train.txt, ptb.valid.txt.gz...); of a
 * lone file the first nine tenths of its units are for training. What the training text does not
 * have is <unk>: a word like others where the training text has it; else it is numbered behind all
 * others, and only where the test part needs it, so that a text that knows all its words keeps its
 * numbers. */
#include "data/files.h"
#include "data/sequence.h"
#include "data/words.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    weir_sequences q;
    const char *path;
    int unit;
    weir_words words;
    uint64_t unknown[WEIR_PARTS]; /* units that are not in the training text */
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

/* A unit that training has not met. */
static weir_err number_unknown(text *t, int part, uint32_t *to)
{
    t->unknown[part]++;
    return weir_words_add(&t->words, WEIR_WORDS_UNKNOWN, strlen(WEIR_WORDS_UNKNOWN), to);
}

/* The next `n` units of the reader; those of the training part join the vocabulary. */
static weir_err number(text *t, int part, weir_reader *r, uint64_t n, uint32_t *to)
{
    for (uint64_t i = 0; i < n && weir_reader_next(r); i++) {
        if (part == WEIR_TRAIN)
            WEIR_TRY(weir_words_add(&t->words, r->unit, r->n, &to[i]));
        else if (!weir_words_find(&t->words, r->unit, r->n, &to[i]))
            WEIR_TRY(number_unknown(t, part, &to[i]));
    }
    return WEIR_OK;
}

static weir_err make_part(text *t, int part, weir_reader *r, uint64_t n)
{
    uint32_t *made = malloc((n ? n : 1) * sizeof *made), unused;

    if (!made)
        return weir_fail_nomem(n * sizeof *made);
    t->q.memory[part] = made;
    t->q.part[part] = (weir_sequence){.name = r->name, .token = made, .width = 4, .tokens = n};
    WEIR_TRY(number(t, part, r, n, made));
    if (part == WEIR_TRAIN && t->unit == WEIR_UNIT_WORD) /* even a text of one line has an end */
        return weir_words_add(&t->words, "<eos>", 5, &unused);
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

/* ---- the verbs ---- */

/* A whole file as a part. */
static weir_err load(text *t, int part, const char *path)
{
    char *bytes = NULL;
    weir_reader r;
    uint64_t n;
    weir_err err = open_reader(t, path, &bytes, &r, &n);

    if (!err)
        err = make_part(t, part, &r, n);
    free(bytes);
    return err;
}

/* The test part is `valid` where there is no `test`. */
static weir_err load_dir(text *t, weir_arena *a)
{
    static const char endings[] = "(.txt, .text, .tokens, .raw or no ending)";
    const char *train, *valid, *test;
    char wanted[2][96];

    snprintf(wanted[0], sizeof wanted[0], "*train* %s", endings);
    snprintf(wanted[1], sizeof wanted[1], "*test* or *valid* %s", endings);
    WEIR_TRY(weir_files_one(t->path, is_part, "train", wanted[0], a, &train));
    WEIR_TRY(weir_files_one(t->path, is_part, "valid", NULL, a, &valid));
    WEIR_TRY(weir_files_one(t->path, is_part, "test", valid ? NULL : wanted[1], a, &test));
    WEIR_TRY(load(t, WEIR_TRAIN, train));
    return load(t, WEIR_TEST, test ? test : valid);
}

static weir_err cut_file(text *t, weir_reader *r, uint64_t n)
{
    WEIR_TRY(make_part(t, WEIR_TRAIN, r, weir_sequences_split(n)));
    return make_part(t, WEIR_TEST, r, n - weir_sequences_split(n));
}

static weir_err load_file(text *t)
{
    char *bytes = NULL;
    weir_reader r;
    uint64_t n;
    weir_err err = open_reader(t, t->path, &bytes, &r, &n);

    if (!err)
        err = cut_file(t, &r, n);
    free(bytes);
    return err;
}

static weir_err open_text(void *self, const weir_data_need *need, weir_arena *a,
                          weir_data_facts *facts)
{
    text *t = self;

    if (!t->path || !t->path[0])
        return weir_fail(WEIR_USAGE,
                         "data text: a directory or a file was expected, as in text:DIR");
    WEIR_TRY(weir_files_is_dir(t->path) ? load_dir(t, a) : load_file(t));
    WEIR_TRY(weir_sequences_cut(&t->q, need, (int64_t)t->words.count, facts));
    memcpy(facts->unknown, t->unknown, sizeof facts->unknown);
    return WEIR_OK;
}

/* Numbers alone would not tell a text from one in which a word was renamed everywhere. */
static uint64_t hash(const void *self, weir_part part)
{
    uint64_t tokens = weir_sequences_hash(self, part);

    return part == WEIR_TRAIN ? weir_words_hash(&((const text *)self)->words, tokens) : tokens;
}

static void close_text(void *self)
{
    weir_words_free(&((text *)self)->words);
    weir_sequences_close(self);
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
    .hash = hash,
    .close = close_text,
};
