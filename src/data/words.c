/* words.c - reading text unit by unit; the vocabulary is a hash table that is never more than half
 * full. */
#include "data/words.h"
#include "core/hash.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 1024, MOST_WORDS = 100000000 };
static const char line_end[] = "<eos>", unknown[] = "<unk>";

/* ---- reading ---- */

weir_reader weir_reader_at(const char *name, const char *text, size_t n, weir_unit kind)
{
    return (weir_reader){.name = name, .at = text, .end = text + n, .line = 1, .kind = kind};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool give_line_end(weir_reader *r)
{
    r->unit = line_end;
    r->n = sizeof line_end - 1;
    r->started = false;
    r->ended = true;
    return true;
}

static bool next_word(weir_reader *r)
{
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
    if (r->at == r->end)
        return r->started ? give_line_end(r)
                          : false; /* a last line without an end has one all the same */
    if (*r->at == '\n') {
        r->at++;
        return give_line_end(r);
    }
    for (r->unit = r->at; r->at < r->end && *r->at != '\n' && !is_blank(*r->at);)
        r->at++;
    r->n = (size_t)(r->at - r->unit);
    r->started = true;
    return true;
}

/* How many bytes the character has. */
static size_t character(const unsigned char *c, size_t left)
{
    size_t n = c[0] < 0xC2 ? 1 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : c[0] < 0xF5 ? 4 : 1;

    for (size_t i = 1; i < n; i++)
        if (i >= left || (c[i] & 0xC0) != 0x80)
            return 1;
    return n;
}

static bool next_character(weir_reader *r)
{
    if (r->at == r->end)
        return false;
    r->unit = r->at;
    r->n = character((const unsigned char *)r->at, (size_t)(r->end - r->at));
    r->at += r->n;
    r->ended = *r->unit == '\n';
    return true;
}

bool weir_reader_next(weir_reader *r)
{
    r->line += r->ended;
    r->ended = false;
    return r->kind == WEIR_UNIT_WORD ? next_word(r) : next_character(r);
}

uint64_t weir_reader_count(weir_reader r)
{
    uint64_t n = 0;

    while (weir_reader_next(&r))
        n++;
    return n;
}

/* ---- the vocabulary ---- */

void weir_words_free(weir_words *w)
{
    free(w->word);
    free(w->slot);
    *w = (weir_words){0};
}

/* Where the word is, or where it would be. */
static int32_t *find_slot(const weir_words *w, const char *at, size_t n)
{
    size_t i = (size_t)weir_hash(at, n, 0) & (w->slots - 1);

    while (w->slot[i] &&
           (w->word[w->slot[i] - 1].n != n || memcmp(w->word[w->slot[i] - 1].at, at, n)))
        i = (i + 1) & (w->slots - 1);
    return &w->slot[i];
}

/* Room for one more: both tables double, and every word is put in its new place. */
static weir_err grow(weir_words *w)
{
    weir_words made = {.count = w->count, .slots = w->slots ? 2 * w->slots : FIRST_SLOTS};

    if (w->count < w->slots / 2)
        return WEIR_OK;
    made.slot = calloc(made.slots, sizeof *made.slot);
    made.word = calloc(made.slots / 2, sizeof *made.word);
    if (!made.slot || !made.word) {
        weir_words_free(&made);
        return weir_fail_nomem(made.slots * (sizeof *w->slot + sizeof *w->word));
    }
    for (size_t i = 0; i < w->count; i++) {
        made.word[i].at = w->word[i].at;
        made.word[i].n = w->word[i].n;
        *find_slot(&made, w->word[i].at, w->word[i].n) = (int32_t)i + 1;
    }
    weir_words_free(w);
    *w = made;
    return WEIR_OK;
}

weir_err weir_words_add(weir_words *w, const char *word, size_t n, uint32_t *number)
{
    int32_t *slot;

    WEIR_TRY(grow(w));
    slot = find_slot(w, word, n);
    if (!*slot) {
        if (w->count == MOST_WORDS)
            return weir_fail(WEIR_INVALID, "the text has more than %d different words", MOST_WORDS);
        w->word[w->count].at = word;
        w->word[w->count].n = n;
        *slot = (int32_t)++w->count;
    }
    *number = (uint32_t)*slot - 1;
    return WEIR_OK;
}

weir_err weir_words_find(const weir_words *w, const weir_reader *r, uint32_t *number)
{
    int32_t slot = w->slots ? *find_slot(w, r->unit, r->n) : 0;

    if (!slot && w->slots)
        slot = *find_slot(w, unknown, sizeof unknown - 1);
    if (!slot)
        return weir_fail(
            WEIR_INVALID,
            "%s: line %llu: the %s '%.*s' is not in the training text, and neither is %s", r->name,
            (unsigned long long)r->line, r->kind == WEIR_UNIT_WORD ? "word" : "character",
            r->n > 200 ? 200 : (int)r->n, r->unit, unknown);
    *number = (uint32_t)slot - 1;
    return WEIR_OK;
}
