/* lesson.h - what the training part taught a kind of data: how its values are standardised, which
 * word has which number, how many classes there are. It belongs to the run: it is saved with the
 * weights, and holds for whatever the model meets later.
 *
 * A kind lists its lessons once, in its verb `lessons`; what is behind them writes or reads, so
 * that the two cannot drift apart:
 *
 *   static weir_err lessons(void *self, weir_lesson *l) {
 *       WEIR_TRY(weir_lesson_option(l, "unit", true));
 *       return weir_lesson_words(l, "vocabulary", &s->words);
 *   }
 *
 * As text they are a JSON object (docs/WIRE.md, Lessons). Text that is read comes from a checkpoint
 * and may be anything: WEIR_DAMAGED names what is wrong. */
#ifndef WEIR_DATA_LESSON_H
#define WEIR_DATA_LESSON_H
#include "core/json.h"
#include "core/plug.h"
#include "data/standard.h"
#include "data/vocab.h"

typedef struct weir_lesson {
    bool reading;
    weir_json *to;         /* writing */
    const weir_json *from; /* reading */
    const weir_plug *kind; /* whose lessons, */
    void *self;            /* in which state, */
    const char *spec;      /* and what the user said of it */
    weir_arena *arena;     /* for what is read */
} weir_lesson;

/* An option of the kind's, as the run had it: read, it takes the place of the option's default. A
 * spec that says another has its way, or, where the option is `binding`, as the rest means nothing
 * without it, is WEIR_MISFIT. */
weir_err weir_lesson_option(weir_lesson *, const char *name, bool binding);
/* An option that counts what the training part has, if the spec does not (0): from 1 to `most`. */
weir_err weir_lesson_count(weir_lesson *, const char *name, int64_t *, int64_t most);
/* Whether the user said this option; false when writing. */
bool weir_lesson_given(const weir_lesson *, const char *name);
weir_err weir_lesson_number(weir_lesson *, const char *key, int64_t *, int64_t least, int64_t most);
/* 1 to `most` sizes, none of them 0. */
weir_err weir_lesson_sizes(weir_lesson *, const char *key, uint64_t *, int *n, int most);
weir_err weir_lesson_hash(weir_lesson *, const char *key, uint64_t *);
/* Means and deviations, of which there is at least one; read, they are in the arena. */
weir_err weir_lesson_scales(weir_lesson *, weir_scale **, uint64_t *n);
/* At least one word, each once. Read, `words` is empty before, and to be freed after an error
 * too. */
weir_err weir_lesson_words(weir_lesson *, const char *key, weir_vocab *words);
/* What every sentence about lessons that cannot be read begins with. */
weir_err weir_lesson_damaged(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
