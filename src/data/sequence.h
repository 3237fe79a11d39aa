/* sequence.h - a long row of tokens, read in order by several readers at once: it is cut into
 * streams of equal length, and each stream into windows that follow one another. Window w of stream
 * s is sample s * windows + w; its targets are its tokens moved on by one, so a stream of t tokens
 * has (t - 1) / length windows. What is left over at the ends is not used.
 *
 *     tokens   a b c d e f g h i j k l m n o p q     2 streams of 8, length 3: 2 windows each
 *     stream 0 a b c d e f g .   windows abc def, targets bcd efg
 *     stream 1 i j k l m n o .   windows ijk lmn, targets jkl mno */
#ifndef WEIR_DATA_SEQUENCE_H
#define WEIR_DATA_SEQUENCE_H
#include "data/data.h"

typedef struct weir_sequence {
    const char *name; /* the file's, for messages */
    const void *token;
    int width; /* bytes of one token, unsigned, as the machine has them: 2 or 4 */
    uint64_t tokens;
    uint64_t streams, each, windows; /* each: tokens of one stream */
} weir_sequence;

/* What the private state of data made of tokens begins with. */
typedef struct weir_sequences {
    weir_sequence part[WEIR_DATA_PARTS];
    int64_t length;
    void *memory[WEIR_DATA_PARTS]; /* what the tokens lie in, ours to free */
} weir_sequences;

/* Cuts the parts that are needed for the need's batch and tells the facts. A training part too
 * short for so many streams is WEIR_MISFIT; a test part gets fewer of them. */
weir_err weir_sequences_cut(weir_sequences *, const weir_data_need *, int64_t vocabulary,
                            weir_data_facts *);
/* The verbs of weir_data. */
weir_err weir_sequences_get(const void *self, const weir_data_pick *, weir_data_batch *);
uint64_t weir_sequences_hash(const void *self, weir_data_part);
void weir_sequences_close(void *self);
/* What a file without parts of its own is cut by: nine tenths of it are for training. */
uint64_t weir_sequences_split(uint64_t tokens);
#endif
