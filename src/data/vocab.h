/* vocab.h - text as units, units as numbers.
 *
 * A unit is a word, parted by white space, each line's end being the word <eos>; or a character of
 * UTF-8 (a byte that is no part of one stands for itself). Numbers are given in the order of first
 * appearance. */
#ifndef WEIR_DATA_VOCAB_H
#define WEIR_DATA_VOCAB_H
#include "core/err.h"

typedef enum { WEIR_TEXT_WORD, WEIR_TEXT_CHAR } weir_text_unit;

/* A place in a text, and the unit that was read last: n bytes from `unit`, in line `line` (from
 * 1). */
typedef struct weir_reader {
    const char *name, *at, *end, *unit;
    size_t n;
    uint64_t line;
    weir_text_unit kind;
    bool started, ended; /* the last line has words; the unit before was a line's end */
} weir_reader;
weir_reader weir_reader_at(const char *name, const char *text, size_t n, weir_text_unit);
bool weir_reader_next(weir_reader *);    /* false: there is no more */
uint64_t weir_reader_count(weir_reader); /* units from here to the end */

/* A vocabulary: words in the order of their numbers, and copies of them. All 0 is an empty one. */
typedef struct weir_vocab {
    struct weir_vocab_word {
        size_t at, n; /* bytes of `text` */
    } * word;
    char *text;
    size_t used, room; /* bytes of it */
    int32_t *slot;     /* hash table of numbers + 1 */
    size_t count, slots;
} weir_vocab;
/* What a unit becomes that a vocabulary does not know. */
#define WEIR_WORDS_UNKNOWN "<unk>"
void weir_vocab_free(weir_vocab *);
/* new or known */
weir_err weir_vocab_add(weir_vocab *, const char *word, size_t n, uint32_t *number);
bool weir_vocab_find(const weir_vocab *, const char *word, size_t n, uint32_t *number);
/* Of all words and their numbers. */
uint64_t weir_words_hash(const weir_vocab *, uint64_t seed);
#endif
