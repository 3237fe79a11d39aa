/* text.c - plain text as tokens: words or characters, numbered as the training text brings them. A
 * directory has one file for each part, named after it (ptb.train.txt, ptb.valid.txt.gz...); of a
 * lone file the first nine tenths of its units are for training.
 *
 * What the training text does not have is <unk>: a word like others where the training text has it;
 * else it is numbered behind all others, and only where the test part needs it, so that a text that
 * knows all its words keeps its numbers. A run's vocabulary grows no more: units that it does not
 * know are <unk>, or left out if it does not know that either. */
#include "core/hash.h"
#include "data/files.h"
#include "data/sequence.h"
#include "data/vocab.h"
#include <stdlib.h>
#include <string.h>

typedef struct text {
    weir_sequences q;
    const char *path;
    int unit;
    weir_vocab words;
    bool learns;   /* the vocabulary is not given */
    uint64_t file; /* a hash of the lone file that the run was trained on; 0: there were several */
    uint64_t unknown[WEIR_DATA_PARTS]; /* units that are not in the vocabulary */
    bool left_out;                     /* and not in the parts */
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

/* A unit that is not in the vocabulary; false in *known: it is left out. */
static weir_err number_unknown(text *t, int part, uint32_t *to, bool *known)
{
    static const char unknown[] = WEIR_WORDS_UNKNOWN;

    t->unknown[part]++;
    if (t->learns)
        return weir_vocab_add(&t->words, unknown, sizeof unknown - 1, to);
    *known = weir_vocab_find(&t->words, unknown, sizeof unknown - 1, to);
    t->left_out |= !*known;
    return WEIR_OK;
}

/* The next `n` units of the reader; those of the training part join a vocabulary that learns. */
static weir_err number(text *t, int part, weir_reader *r, uint64_t n, weir_sequence *s)
{
    uint32_t *to = t->q.memory[part];

    for (uint64_t i = 0; i < n && weir_reader_next(r); i++) {
        bool known = true;
        if (t->learns && part == WEIR_DATA_TRAIN)
            WEIR_TRY(weir_vocab_add(&t->words, r->unit, r->n, &to[s->tokens]));
        else if (!weir_vocab_find(&t->words, r->unit, r->n, &to[s->tokens]))
            WEIR_TRY(number_unknown(t, part, &to[s->tokens], &known));
        s->tokens += known;
    }
    return WEIR_OK;
}

static weir_err make_part(text *t, int part, weir_reader *r, uint64_t n)
{
    uint32_t *made = malloc((n ? n : 1) * sizeof *made), unused;

    if (!made)
        return weir_fail_nomem(n * sizeof *made);
    t->q.memory[part] = made;
    t->q.part[part] = (weir_sequence){.name = r->name, .token = made, .width = 4};
    WEIR_TRY(number(t, part, r, n, &t->q.part[part]));
    if (t->learns && part == WEIR_DATA_TRAIN && t->unit == WEIR_TEXT_WORD)
        return weir_vocab_add(&t->words, "<eos>", 5, &unused); /* even of a text of one line */
    return WEIR_OK;
}

static weir_err open_reader(const text *t, const char *path, char **bytes, weir_reader *r,
                            uint64_t *n)
{
    size_t length;

    WEIR_TRY(weir_files_read(path, bytes, &length));
    *r = weir_reader_at(path, *bytes, length, (weir_text_unit)t->unit);
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
static weir_err load_dir(text *t, const weir_data_need *need, weir_arena *a)
{
    static const char train_files[] = "*train* (.txt, .text, .tokens, .raw or no ending)",
                      test_files[] = "*test* or *valid* (.txt, .text, .tokens, .raw or no ending)";
    const char *train, *valid, *test;

    t->file = 0;
    if (!need->test_only)
        WEIR_TRY(weir_files_one(t->path, is_part, "train", train_files, a, &train));
    WEIR_TRY(weir_files_one(t->path, is_part, "valid", NULL, a, &valid));
    WEIR_TRY(weir_files_one(t->path, is_part, "test", valid ? NULL : test_files, a, &test));
    if (!need->test_only)
        WEIR_TRY(load(t, WEIR_DATA_TRAIN, train));
    return load(t, WEIR_DATA_TEST, test ? test : valid);
}

/* Nine tenths of a lone file are for training; of one that a run is evaluated on, and that it was
 * not trained on, nothing is. */
static weir_err cut_file(text *t, const weir_data_need *need, weir_reader *r, uint64_t n)
{
    uint64_t hash = weir_hash(r->at, (size_t)(r->end - r->at), 0), cut = weir_sequences_split(n);

    if (need->test_only && hash != t->file)
        cut = 0;
    t->file = hash;
    for (uint64_t i = 0; need->test_only && i < cut; i++)
        weir_reader_next(r);
    if (!need->test_only)
        WEIR_TRY(make_part(t, WEIR_DATA_TRAIN, r, cut));
    return make_part(t, WEIR_DATA_TEST, r, n - cut);
}

static weir_err load_file(text *t, const weir_data_need *need)
{
    char *bytes = NULL;
    weir_reader r;
    uint64_t n;
    weir_err err = open_reader(t, t->path, &bytes, &r, &n);

    if (!err)
        err = cut_file(t, need, &r, n);
    free(bytes);
    return err;
}

static weir_err open_text(void *self, const weir_data_need *need, weir_arena *a,
                          weir_data_facts *facts)
{
    text *t = self;
    weir_err err;

    t->learns = !need->lessons;
    if (!t->path || !t->path[0])
        return weir_fail(WEIR_USAGE,
                         "data text: a directory or a file was expected, as in text:DIR");
    WEIR_TRY(weir_files_is_dir(t->path) ? load_dir(t, need, a) : load_file(t, need));
    err = weir_sequences_cut(&t->q, need, (int64_t)t->words.count, facts);
    if (err && t->left_out)
        weir_fail_in(err, "%s that the run's vocabulary does not have are left out",
                     t->unit == WEIR_TEXT_WORD ? "words" : "characters");
    WEIR_TRY(err);
    memcpy(facts->unknown, t->unknown, sizeof facts->unknown);
    facts->left_out = t->left_out;
    return WEIR_OK;
}

static weir_err lessons(void *self, weir_lesson *l)
{
    text *t = self;

    WEIR_TRY(weir_lesson_option(l, "unit", true));
    WEIR_TRY(weir_lesson_option(l, "length", false));
    WEIR_TRY(weir_lesson_hash(l, "file", &t->file));
    return weir_lesson_words(l, "vocabulary", &t->words);
}

/* Numbers alone would not tell a text from one in which a word was renamed everywhere. */
static uint64_t hash(const void *self, weir_data_part part)
{
    uint64_t tokens = weir_sequences_hash(self, part);

    return part == WEIR_DATA_TRAIN ? weir_words_hash(&((const text *)self)->words, tokens) : tokens;
}

static void close_text(void *self)
{
    weir_vocab_free(&((text *)self)->words);
    weir_sequences_close(self);
}

static const weir_opt options[] = {
    {"path", WEIR_OPT_TEXT, offsetof(text, path), NULL,
     "a directory with files named train, valid, test; or one file", .bare = true, .path = true},
    {"unit", WEIR_OPT_CHOICE, offsetof(text, unit), "word", "what a token is",
     .choices = "word|char"},
    {"length", WEIR_OPT_INT, offsetof(text, q.length), "35", "tokens of a window", .min = 1,
     .max = 1 << 24},
    {0},
};

const weir_data weir_data_text = {
    .plug = {"text", "plain text by words or characters", sizeof(text), options},
    .open = open_text,
    .lessons = lessons,
    .get = weir_sequences_get,
    .hash = hash,
    .close = close_text,
};
