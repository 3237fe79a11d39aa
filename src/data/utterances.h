/* utterances.h - recordings cut into frames: one array has all frames, one after the other, another
 * says where each utterance begins and how many frames it has (its first two columns). */
#ifndef WEIR_DATA_UTTERANCES_H
#define WEIR_DATA_UTTERANCES_H
#include "data/idx_file.h"

/* Whether these are frames of features, and the utterances follow one another without gap to the
 * frames' end. */
weir_err weir_utterances_check(const weir_array *frames, const weir_array *utts);
/* The first frame of the utterance that this frame belongs to, and its last. */
void weir_utterances_span(const weir_array *utts, uint64_t frame, uint64_t *first, uint64_t *last);
#endif
