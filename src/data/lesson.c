/* lesson.c - lessons to JSON and back. */
#include "data/lesson.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* beyond what a table or an array of float32 may hold */
#define MOST_SCALE 1e110

weir_err weir_lesson_damaged(const char *format, ...)
{
    char what[400];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return weir_fail(WEIR_DAMAGED, "what the run's data taught it (weir.lessons) is damaged: %s",
                     what);
}

/* ---- options ---- */

bool weir_lesson_given(const weir_lesson *l, const char *name)
{
    return l->reading && weir_plug_given(l->kind, l->spec, name);
}

static weir_err another(const weir_lesson *l, const char *name, const char *mine, const char *saved)
{
    return weir_fail(WEIR_MISFIT, "data %s: %s=%s was found; the run was trained with %s=%s",
                     l->kind->name, name, mine, name, saved);
}

weir_err weir_lesson_option(weir_lesson *l, const char *name, bool binding)
{
    const weir_opt *o = l->kind->options;
    char mine[400];
    const char *saved;

    while (strcmp(o->name, name))
        o++;
    weir_opt_show(o, l->self, mine, sizeof mine);
    if (!l->reading)
        return weir_json_put_text(l->to, name, mine), WEIR_OK;
    if (!weir_json_get_text(l->from, name, &saved))
        return weir_lesson_damaged("'%s' is missing, or no text", name);
    if (!weir_lesson_given(l, name)) {
        if (weir_opt_set(l->kind->options, "it", name, saved, l->arena, l->self))
            return weir_lesson_damaged("%.300s", weir_why_text());
    } else if (binding && strcmp(mine, saved)) {
        return another(l, name, mine, saved);
    }
    return WEIR_OK;
}

weir_err weir_lesson_count(weir_lesson *l, const char *name, int64_t *x, int64_t most)
{
    int64_t made = *x;
    char mine[32], saved[32];

    WEIR_TRY(weir_lesson_number(l, name, &made, 1, most));
    if (*x && *x != made) {
        snprintf(mine, sizeof mine, "%lld", (long long)*x);
        snprintf(saved, sizeof saved, "%lld", (long long)made);
        return another(l, name, mine, saved);
    }
    *x = made;
    return WEIR_OK;
}

/* ---- numbers ---- */

weir_err weir_lesson_number(weir_lesson *l, const char *key, int64_t *x, int64_t least,
                            int64_t most)
{
    int64_t made;

    if (!l->reading)
        return weir_json_put_int(l->to, key, *x), WEIR_OK;
    if (!weir_json_get_int(l->from, key, &made) || made < least || made > most)
        return weir_lesson_damaged("'%s' is missing, or no number from %lld to %lld", key,
                                   (long long)least, (long long)most);
    *x = made;
    return WEIR_OK;
}

weir_err weir_lesson_sizes(weir_lesson *l, const char *key, uint64_t *x, int *n, int most)
{
    const weir_json *list = l->reading ? weir_json_get(l->from, key) : NULL;
    weir_json *made;
    int64_t size;

    if (!l->reading) {
        made = weir_json_array();
        for (int i = 0; i < *n; i++)
            weir_json_add_int(made, (int64_t)x[i]);
        return weir_json_put(l->to, key, made), WEIR_OK;
    }
    if (!weir_json_length(list) || weir_json_length(list) > (size_t)most)
        return weir_lesson_damaged("'%s' is missing, or not 1 to %d sizes", key, most);
    *n = (int)weir_json_length(list);
    for (int i = 0; i < *n; i++) {
        if (!weir_json_int_at(list, (size_t)i, &size) || size < 1)
            return weir_lesson_damaged("'%s' holds what is no size", key);
        x[i] = (uint64_t)size;
    }
    return WEIR_OK;
}

weir_err weir_lesson_hash(weir_lesson *l, const char *key, uint64_t *x)
{
    char text[17];
    const char *saved;

    snprintf(text, sizeof text, "%016llx", (unsigned long long)*x);
    if (!l->reading)
        return weir_json_put_text(l->to, key, text), WEIR_OK;
    if (!weir_json_get_text(l->from, key, &saved) || strlen(saved) != 16 ||
        strspn(saved, "0123456789abcdef") != 16)
        return weir_lesson_damaged("'%s' is missing, or not 16 hexadecimal digits", key);
    *x = strtoull(saved, NULL, 16);
    return WEIR_OK;
}

/* ---- scales ---- */

static void write_scales(weir_lesson *l, const weir_scale *x, uint64_t n)
{
    weir_json *mean = weir_json_array(), *deviation = weir_json_array();

    for (uint64_t i = 0; i < n; i++) {
        weir_json_add_real(mean, x[i].mean);
        weir_json_add_real(deviation, x[i].deviation);
    }
    weir_json_put(l->to, "mean", mean);
    weir_json_put(l->to, "deviation", deviation);
}

weir_err weir_lesson_scales(weir_lesson *l, weir_scale **x, uint64_t *n)
{
    const weir_json *mean, *deviation;
    weir_scale *made;
    size_t count;

    if (!l->reading)
        return write_scales(l, *x, *n), WEIR_OK;
    mean = weir_json_get(l->from, "mean");
    deviation = weir_json_get(l->from, "deviation");
    count = weir_json_length(mean);
    if (!count || weir_json_length(deviation) != count)
        return weir_lesson_damaged("'mean' or 'deviation' is missing, or they are not as many");
    if (!(made = WEIR_NEW(l->arena, weir_scale, count)))
        return weir_fail_nomem(count * sizeof *made);
    for (size_t i = 0; i < count; i++)
        if (!weir_json_real_at(mean, i, &made[i].mean) ||
            !weir_json_real_at(deviation, i, &made[i].deviation) ||
            !(fabs(made[i].mean) <= MOST_SCALE) ||
            !(made[i].deviation > 0 && made[i].deviation <= MOST_SCALE))
            return weir_lesson_damaged("mean and deviation %zu are not finite, or not positive", i);
    *x = made;
    *n = count;
    return WEIR_OK;
}

/* ---- words ---- */

/* A word that is no text: its bytes as numbers. */
static weir_json *byte_list(const char *word, size_t n)
{
    weir_json *list = weir_json_array();

    for (size_t i = 0; i < n; i++)
        weir_json_add_int(list, (unsigned char)word[i]);
    return list;
}

static void write_words(weir_lesson *l, const char *key, const weir_vocab *words)
{
    weir_json *list = weir_json_array();

    for (size_t i = 0; i < words->count; i++) {
        const char *word = words->text + words->word[i].at;
        if (!weir_json_add_bytes(list, word, words->word[i].n))
            weir_json_add(list, byte_list(word, words->word[i].n));
    }
    weir_json_put(l->to, key, list);
}

static weir_err read_bytes(const weir_json *list, size_t number, weir_vocab *words, uint32_t *got)
{
    size_t n = weir_json_length(list);
    char *word = n ? malloc(n) : NULL;
    int64_t byte = 0;
    weir_err err = WEIR_OK;

    if (!n)
        return weir_lesson_damaged("word %zu is neither a text nor a list of bytes", number);
    if (!word)
        return weir_fail_nomem(n);
    for (size_t i = 0; i < n && !err; i++) {
        if (!weir_json_int_at(list, i, &byte) || byte < 0 || byte > 255)
            err = weir_lesson_damaged("word %zu holds what is no byte", number);
        word[i] = (char)byte;
    }
    if (!err)
        err = weir_vocab_add(words, word, n, got);
    free(word);
    return err;
}

weir_err weir_lesson_words(weir_lesson *l, const char *key, weir_vocab *words)
{
    const weir_json *list = l->reading ? weir_json_get(l->from, key) : NULL;
    size_t count = weir_json_length(list), n;
    const char *word;
    uint32_t number;

    if (!l->reading)
        return write_words(l, key, words), WEIR_OK;
    if (!count)
        return weir_lesson_damaged("'%s' is missing, or holds no words", key);
    for (size_t i = 0; i < count; i++) {
        if (weir_json_bytes_at(list, i, &word, &n))
            WEIR_TRY(weir_vocab_add(words, word, n, &number));
        else
            WEIR_TRY(read_bytes(weir_json_at(list, i), i, words, &number));
        if (number != i)
            return weir_lesson_damaged("words %u and %zu are the same", number, i);
    }
    return WEIR_OK;
}
