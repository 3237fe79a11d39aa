/* vocab.c - reading text unit by unit; the vocabulary is a hash table that is never more than half
 * full. */
#include "data/vocab.h"
#include "core/hash.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 1024, FIRST_TEXT = 4096, MOST_WORDS = 100000000 };
static const char line_end[] = "<eos>";

/* ---- reading ---- */

weir_reader weir_reader_at(const char *name, const char *text, size_t n, weir_text_unit kind)
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
    return r->kind == WEIR_TEXT_WORD ? next_word(r) : next_character(r);
}

uint64_t weir_reader_count(weir_reader r)
{
    uint64_t n = 0;

    while (weir_reader_next(&r))
        n++;
    return n;
}

/* ---- the vocabulary ---- */

void weir_vocab_free(weir_vocab *w)
{
    free(w->word);
    free(w->slot);
    free(w->text);
    *w = (weir_vocab){0};
}

/* Where the word is, or where it would be. */
static int32_t *find_slot(const weir_vocab *w, const char *word, size_t n)
{
    size_t i = (size_t)weir_hash(word, n, 0) & (w->slots - 1);

    for (; w->slot[i]; i = (i + 1) & (w->slots - 1)) {
        const struct weir_vocab_word *known = &w->word[w->slot[i] - 1];
        if (known->n == n && !memcmp(w->text + known->at, word, n))
            break;
    }
    return &w->slot[i];
}

/* Room for one more: both tables double, and every word is put in its new place. */
static weir_err grow(weir_vocab *w)
{
    size_t slots = w->slots ? 2 * w->slots : FIRST_SLOTS;
    void *word;
    int32_t *slot;

    if (w->count < w->slots / 2)
        return WEIR_OK;
    if (!(word = reallocarray(w->word, slots / 2, sizeof *w->word)))
        return weir_fail_nomem(slots / 2 * sizeof *w->word);
    w->word = word;
    if (!(slot = calloc(slots, sizeof *slot)))
        return weir_fail_nomem(slots * sizeof *slot);
    free(w->slot);
    w->slot = slot;
    w->slots = slots;
    for (size_t i = 0; i < w->count; i++)
        *find_slot(w, w->text + w->word[i].at, w->word[i].n) = (int32_t)i + 1;
    return WEIR_OK;
}

/* A copy of the word behind the others. */
static weir_err keep(weir_vocab *w, const char *word, size_t n)
{
    size_t room = w->room ? w->room : FIRST_TEXT;
    char *text;

    while (room - w->used < n)
        room *= 2;
    if (room > w->room) {
        if (!(text = realloc(w->text, room)))
            return weir_fail_nomem(room);
        w->text = text;
        w->room = room;
    }
    memcpy(w->text + w->used, word, n);
    w->word[w->count] = (struct weir_vocab_word){w->used, n};
    w->used += n;
    return WEIR_OK;
}

weir_err weir_vocab_add(weir_vocab *w, const char *word, size_t n, uint32_t *number)
{
    int32_t *slot;

    WEIR_TRY(grow(w));
    slot = find_slot(w, word, n);
    if (!*slot) {
        if (w->count == MOST_WORDS)
            return weir_fail(WEIR_INVALID, "the text has more than %d different words", MOST_WORDS);
        WEIR_TRY(keep(w, word, n));
        *slot = (int32_t)++w->count;
    }
    *number = (uint32_t)*slot - 1;
    return WEIR_OK;
}

bool weir_vocab_find(const weir_vocab *w, const char *word, size_t n, uint32_t *number)
{
    int32_t slot = w->slots ? *find_slot(w, word, n) : 0;

    if (slot)
        *number = (uint32_t)slot - 1;
    return slot;
}

uint64_t weir_words_hash(const weir_vocab *w, uint64_t seed)
{
    seed = weir_hash(w->text, w->used, seed);
    return weir_hash(w->word, w->count * sizeof *w->word, seed);
}
