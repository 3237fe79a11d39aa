/* netfile.c - first the text becomes statements of words, then the statements are walked, and
 * repeats unrolled. */
#include "nn/netfile.h"
#include "core/hash.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_WORDS = 24,
    MAX_WORD = 200,
    MAX_NAME = 96,
    MAX_LINES = 4096,
    MAX_REPETITIONS = 65536,
    MAX_SIZES = 64,
    MAX_NEST = 8
};

/* One line of the file. */
typedef struct statement {
    char *word[MAX_WORDS];
    int col[MAX_WORDS], words, line;
    int end; /* of a repeat: its `end`; 0: it has none */
} statement;

/* A repeat that is being walked. */
typedef struct repetition {
    int64_t number;
    const char *numbers;
    int nest;
} repetition;

typedef struct reader {
    weir_netfile *file;
    weir_arena *arena;
    statement *statement;
    int statements, repetitions;
    const char *changed;
} reader;

weir_err weir_netfile_at(const weir_netfile *f, weir_err err, int line, int col)
{
    return weir_fail_in(err, "%s:%d:%d", f->path, line, col);
}

static weir_err fail_at(const reader *r, const statement *s, int word, const char *sentence)
{
    return weir_fail(WEIR_INVALID, "%s:%d:%d: %s", r->file->path, s->line, s->col[word], sentence);
}

/* ---- text to statements ---- */

static weir_err split_line(const reader *r, char *text, statement *s)
{
    for (char *p = text;;) {
        while (*p == ' ' || *p == '\t' || *p == '\r')
            *p++ = 0;
        if (!*p || *p == '#')
            return *p = 0, WEIR_OK;
        s->col[s->words < MAX_WORDS ? s->words : MAX_WORDS - 1] = (int)(p - text) + 1;
        if (s->words == MAX_WORDS)
            return fail_at(r, s, MAX_WORDS - 1, "there are too many words on this line");
        s->word[s->words++] = p;
        for (; *p && !strchr(" \t\r#", *p); p++)
            if (!isgraph((unsigned char)*p))
                return fail_at(r, s, s->words - 1,
                               "this word holds a byte that is not plain ASCII");
        if (p - s->word[s->words - 1] > MAX_WORD)
            return fail_at(r, s, s->words - 1, "this word is too long");
    }
}

static size_t count_lines(const char *text, size_t n)
{
    size_t lines = 1;

    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

static weir_err split_text(reader *r, const char *text, size_t n)
{
    char *copy = weir_alloc(r->arena, n + 1), *end;
    int line = 1;

    if (count_lines(text, n) > 2 * MAX_LINES)
        return weir_fail(WEIR_INVALID, "%s: a model file has at most %d lines", r->file->path,
                         2 * MAX_LINES);
    r->statement = WEIR_NEW(r->arena, statement, count_lines(text, n));
    if (!copy || !r->statement)
        return weir_fail_nomem(n);
    memcpy(copy, text, n);
    for (char *p = copy; p <= copy + n; p = end + 1, line++) {
        statement *s = &r->statement[r->statements];
        if (!(end = memchr(p, '\n', (size_t)(copy + n - p))))
            end = copy + n;
        *end = 0;
        *s = (statement){.line = line};
        if (memchr(p, 0, (size_t)(end - p)))
            return weir_fail(WEIR_INVALID, "%s:%d:%d: a zero byte has no place in a model file",
                             r->file->path, line, (int)strlen(p) + 1);
        WEIR_TRY(split_line(r, p, s));
        r->statements += s->words > 0;
    }
    return WEIR_OK;
}

/* ---- values ---- */

static weir_err evaluate(const reader *r, const statement *s, int word, const repetition *t,
                         int64_t *value)
{
    weir_scope scope = {r->file->size, r->file->sizes, t->number};
    size_t at;
    weir_err err = weir_expr(s->word[word], &scope, value, &at);

    return err ? weir_netfile_at(r->file, err, s->line, s->col[word] + (int)at) : WEIR_OK;
}

/* Puts the numbers of the repetition in the place of each %. false: no room. */
static bool put_numbers(const char *word, const char *numbers, char *text, size_t room)
{
    size_t n = 0;

    for (; *word && n < room; word++)
        n += (size_t)(*word == '%' && numbers ? snprintf(text + n, room - n, "%s", numbers)
                                              : snprintf(text + n, room - n, "%c", *word));
    if (!n)
        text[0] = 0;
    return n < room;
}

weir_err weir_netfile_value(const weir_netfile *f, const weir_netfile_line *l,
                            const weir_netfile_option *o, bool whole_number, char *text,
                            size_t room)
{
    weir_scope scope = {f->size, l->sizes, l->repetition};
    int64_t value;
    size_t at = 0;
    weir_err err;

    if (whole_number) {
        if ((err = weir_expr(o->value, &scope, &value, &at)))
            return weir_netfile_at(f, err, l->line, o->value_col + (int)at);
        snprintf(text, room, "%lld", (long long)value);
        return WEIR_OK;
    }
    if (!put_numbers(o->value, l->numbers, text, room))
        return weir_fail(WEIR_INVALID, "%s:%d:%d: this value is too long", f->path, l->line,
                         o->value_col);
    return WEIR_OK;
}

/* ---- sizes ---- */

static bool is_word(const char *s, const char *more)
{
    if (!isalpha((unsigned char)*s))
        return false;
    while (isalnum((unsigned char)*s) || (*s && strchr(more, *s)))
        s++;
    return !*s;
}

/* The value that the spec gives a size, as text; NULL: none. */
static const char *changed_value(const reader *r, const char *name, size_t *len)
{
    size_t n = strlen(name);
    const char *value = NULL;

    for (const char *p = r->changed; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (!strncmp(p, name, n) && p[n] == '=')
            value = p + n + 1;
    *len = value ? strcspn(value, ",") : 0;
    return value;
}

static weir_err change_size(const reader *r, weir_size *size, const char *value, size_t len)
{
    weir_scope scope = {r->file->size, r->file->sizes, 0};
    char text[MAX_WORD];
    size_t at;

    if (len >= MAX_WORD)
        return weir_fail(WEIR_USAGE, "model %s: the value of %s is too long", r->file->path,
                         size->name);
    snprintf(text, sizeof text, "%.*s", (int)len, value);
    if (weir_expr(text, &scope, &size->value, &at))
        return weir_fail_in(WEIR_USAGE, "model %s: %s=%.60s", r->file->path, size->name, text);
    return WEIR_OK;
}

static weir_err size_line(reader *r, const statement *s, const repetition *t)
{
    weir_size *size = &r->file->size[r->file->sizes];
    size_t len;
    const char *value;

    if (t->number)
        return fail_at(r, s, 0, "a size cannot stand inside a repeat");
    if (s->words != 3)
        return fail_at(r, s, 0, "a size has a name and a default: size NAME VALUE");
    if (!is_word(s->word[1], "_") || strlen(s->word[1]) >= MAX_NAME)
        return fail_at(r, s, 1,
                       "the name of a size is a letter with letters, digits and _ behind it");
    if (r->file->sizes == MAX_SIZES)
        return fail_at(r, s, 0, "there are too many sizes");
    for (int i = 0; i < r->file->sizes; i++)
        if (!strcmp(r->file->size[i].name, s->word[1]))
            return fail_at(r, s, 1,
                           i ? "this size is there already"
                             : "classes is what the data brings: no size can have this name");
    size->name = s->word[1];
    WEIR_TRY(evaluate(r, s, 2, t, &size->value));
    if ((value = changed_value(r, size->name, &len)))
        WEIR_TRY(change_size(r, size, value, len));
    r->file->sizes++;
    return WEIR_OK;
}

static bool has_size(const reader *r, const char *name, size_t len)
{
    for (int i = 0; i < r->statements; i++)
        if (r->statement[i].words > 1 && !strcmp(r->statement[i].word[0], "size") &&
            strlen(r->statement[i].word[1]) == len && !strncmp(r->statement[i].word[1], name, len))
            return true;
    return false;
}

/* Every size that the spec names must be in the file. */
static weir_err check_changed(const reader *r)
{
    char known[400] = "";
    size_t n = 0;

    for (int i = 0; i < r->statements && n < sizeof known; i++)
        if (r->statement[i].words > 1 && !strcmp(r->statement[i].word[0], "size"))
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "",
                                  r->statement[i].word[1]);
    for (const char *p = r->changed; p && *p; p += strcspn(p, ","), p += *p == ',') {
        size_t item = strcspn(p, ","), len = strcspn(p, "=,");
        if (len == item)
            return weir_fail(WEIR_USAGE, "model %s: '%.*s' is not size=value", r->file->path,
                             item > 60 ? 60 : (int)item, p);
        if (!has_size(r, p, len))
            return weir_fail(WEIR_USAGE, "model %s: there is no size '%.*s'; it has %s",
                             r->file->path, len > 60 ? 60 : (int)len, p, n ? known : "none");
    }
    return WEIR_OK;
}

/* ---- layers ---- */

static weir_err split_options(const reader *r, const statement *s, int from,
                              weir_netfile_option **out)
{
    int n = s->words - from;
    weir_netfile_option *o = WEIR_NEW(r->arena, weir_netfile_option, n);

    if (!o)
        return weir_fail_nomem((size_t)n * sizeof *o);
    for (int i = 0; i < n; i++) {
        const char *word = s->word[from + i], *equals = strchr(word, '=');
        char *key;
        if (!equals || equals == word || !equals[1])
            return fail_at(r, s, from + i, "key=value was expected");
        if (!(key = weir_copy_text(r->arena, word)))
            return weir_fail_nomem(strlen(word));
        key[equals - word] = 0;
        o[i] = (weir_netfile_option){key, equals + 1, s->col[from + i],
                                     s->col[from + i] + (int)(equals - word) + 1};
        for (int k = 0; k < i; k++)
            if (!strcmp(o[k].key, key))
                return fail_at(r, s, from + i, "this option is there already");
    }
    *out = o;
    return WEIR_OK;
}

/* The name that the line gives, or the kind and its running number. */
static weir_err name_layer(const reader *r, const statement *s, const repetition *t, bool given,
                           weir_netfile_line *l)
{
    char name[MAX_NAME];
    uint64_t kind = l->kind_hash = weir_hash(s->word[0], strlen(s->word[0]), 0);
    int number = 1;

    for (int i = 0; i < r->file->lines; i++)
        number += r->file->line[i].kind_hash == kind && !strcmp(r->file->line[i].kind, s->word[0]);
    if (!given)
        snprintf(name, sizeof name, "%.60s%d", s->word[0], number);
    else if (!is_word(s->word[1], "_.-%") ||
             !put_numbers(s->word[1], t->numbers, name, sizeof name))
        return fail_at(r, s, 1,
                       "a name is a letter with letters, digits and _ . - behind it, and not long");
    if (strchr(name, '%'))
        return fail_at(r, s, 1,
                       "% is the number of the repetition, and only known inside a repeat");
    l->name_hash = weir_hash(name, strlen(name), 0);
    for (int i = 0; i < r->file->lines; i++)
        if (r->file->line[i].name_hash == l->name_hash && !strcmp(r->file->line[i].name, name))
            return weir_fail(WEIR_INVALID, "%s:%d:%d: the name %s is that of line %d already%s",
                             r->file->path, s->line, s->col[given], name, r->file->line[i].line,
                             t->number && given ? ": inside a repeat put a % into it" : "");
    return (l->name = weir_copy_text(r->arena, name)) ? WEIR_OK : weir_fail_nomem(sizeof name);
}

static weir_err layer_line(reader *r, const statement *s, const repetition *t)
{
    bool given = s->words > 1 && !strchr(s->word[1], '=');
    weir_netfile_line *l = &r->file->line[r->file->lines];
    weir_netfile_option *option = NULL;

    if (!is_word(s->word[0], "_-"))
        return fail_at(r, s, 0, "a line begins with a kind of layer, size, repeat, end or bench");
    if (r->file->lines == MAX_LINES)
        return fail_at(r, s, 0, "the model has too many layers");
    *l = (weir_netfile_line){.kind = s->word[0],
                             .line = s->line,
                             .col = s->col[0],
                             .repetition = t->number,
                             .numbers = t->numbers};
    l->sizes = r->file->sizes;
    WEIR_TRY(name_layer(r, s, t, given, l));
    WEIR_TRY(split_options(r, s, 1 + given, &option));
    l->option = option;
    l->options = s->words - 1 - given;
    r->file->lines++;
    return WEIR_OK;
}

static weir_err bench_line(reader *r, const statement *s, const repetition *t)
{
    if (s->words != 2 || t->number || r->file->bench)
        return fail_at(r, s, 0,
                       "one line, outside of repeats, says what to bench with: bench DATA");
    r->file->bench = s->word[1];
    return WEIR_OK;
}

/* ---- repeats ---- */

/* Finds the end of every repeat. Those still open are linked by the same field, innermost first. */
static void pair_repeats(reader *r)
{
    int open = -1, next;

    for (int i = 0; i < r->statements; i++)
        if (!strcmp(r->statement[i].word[0], "repeat")) {
            r->statement[i].end = open;
            open = i;
        } else if (!strcmp(r->statement[i].word[0], "end") && open >= 0) {
            next = r->statement[open].end;
            r->statement[open].end = i, open = next;
        }
    for (; open >= 0; open = next)
        next = r->statement[open].end, r->statement[open].end = 0;
}

static weir_err walk(reader *r, int from, int to, const repetition *t);

static weir_err repeat(reader *r, int at, int end, const repetition *outer)
{
    const statement *s = &r->statement[at];
    int64_t times;

    if (s->words != 2)
        return fail_at(r, s, 0, "a repeat has a number behind it: repeat N");
    if (!end)
        return fail_at(r, s, 0, "this repeat has no end");
    if (r->statement[end].words > 1)
        return fail_at(r, &r->statement[end], 1, "nothing can stand behind end");
    if (outer->nest == MAX_NEST)
        return fail_at(r, s, 0, "repeats nest too deep");
    WEIR_TRY(evaluate(r, s, 1, outer, &times));
    if (times < 0)
        return fail_at(r, s, 1, "a repeat cannot run less than 0 times");
    for (int64_t k = 1; k <= times; k++) {
        char numbers[MAX_NAME];
        repetition t = {.number = k, .nest = outer->nest + 1};
        snprintf(numbers, sizeof numbers, "%s%s%lld", outer->numbers ? outer->numbers : "",
                 outer->numbers ? "." : "", (long long)k);
        if (++r->repetitions > MAX_REPETITIONS)
            return fail_at(r, s, 1, "repeats run too many times");
        if (!(t.numbers = weir_copy_text(r->arena, numbers)))
            return weir_fail_nomem(sizeof numbers);
        WEIR_TRY(walk(r, at + 1, end, &t));
    }
    return WEIR_OK;
}

static weir_err walk(reader *r, int from, int to, const repetition *t)
{
    for (int i = from; i < to; i++) {
        const statement *s = &r->statement[i];
        if (!strcmp(s->word[0], "size")) {
            WEIR_TRY(size_line(r, s, t));
        } else if (!strcmp(s->word[0], "repeat")) {
            WEIR_TRY(repeat(r, i, s->end, t));
            i = s->end;
        } else if (!strcmp(s->word[0], "bench")) {
            WEIR_TRY(bench_line(r, s, t));
        } else if (!strcmp(s->word[0], "end")) {
            return fail_at(r, s, 0, "there is no repeat that this could end");
        } else {
            WEIR_TRY(layer_line(r, s, t));
        }
    }
    return WEIR_OK;
}

weir_err weir_netfile_read(const weir_netfile_source *source, int64_t classes, weir_arena *arena,
                           weir_netfile **out)
{
    weir_netfile *f = WEIR_NEW(arena, weir_netfile, 1);
    reader r = {.file = f, .arena = arena, .changed = source->sizes};

    if (!f || !(f->path = weir_copy_text(arena, source->path)) ||
        !(f->size = WEIR_NEW(arena, weir_size, MAX_SIZES)) ||
        !(f->line = WEIR_NEW(arena, weir_netfile_line, MAX_LINES)))
        return weir_fail_nomem(MAX_LINES * sizeof *f->line);
    f->size[f->sizes++] = (weir_size){"classes", classes};
    WEIR_TRY(split_text(&r, source->text, source->n));
    WEIR_TRY(check_changed(&r));
    pair_repeats(&r);
    WEIR_TRY(walk(&r, 0, r.statements, &(repetition){0}));
    *out = f;
    return WEIR_OK;
}
