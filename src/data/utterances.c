/* utterances.c - which frames belong together. */
#include "data/utterances.h"

weir_err weir_utterances_check(const weir_array *frames, const weir_array *utts)
{
    uint64_t next = 0;

    if (frames->dims != 2)
        return weir_fail(WEIR_INVALID, "%s: %d dimensions were found; frames have 2 (n, features)",
                         frames->name, frames->dims);
    if (utts->dims != 2 || utts->dim[1] < 2 || utts->type == WEIR_ARRAY_F32)
        return weir_fail(WEIR_INVALID,
                         "%s: %d dimensions of %s, %llu a row, were found; utterances are rows of "
                         "2 or more whole numbers",
                         utts->name, utts->dims,
                         utts->type == WEIR_ARRAY_F32 ? "float32" : "whole numbers",
                         (unsigned long long)utts->width);
    for (uint64_t i = 0; i < utts->dim[0]; i++) {
        int32_t first = weir_array_int(utts, i * utts->width),
                n = weir_array_int(utts, i * utts->width + 1);
        if (first < 0 || (uint64_t)first != next || n < 1 || (uint64_t)n > frames->dim[0] - next)
            return weir_fail(WEIR_INVALID,
                             "%s: utterance %llu (from 0) has %d frames from frame %d; 1 to %llu "
                             "from frame %llu were expected",
                             utts->name, (unsigned long long)i, n, first,
                             (unsigned long long)(frames->dim[0] - next), (unsigned long long)next);
        next += (uint64_t)n;
    }
    if (next != frames->dim[0])
        return weir_fail(WEIR_INVALID, "%s: its utterances end with frame %llu; %s has %llu frames",
                         utts->name, (unsigned long long)next - 1, frames->name,
                         (unsigned long long)frames->dim[0]);
    return WEIR_OK;
}

void weir_utterances_span(const weir_array *utts, uint64_t frame, uint64_t *first, uint64_t *last)
{
    /* utterance `low` begins at the frame or before it, `high` behind it */
    uint64_t low = 0, high = utts->dim[0];

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if ((uint64_t)weir_array_int(utts, middle * utts->width) <= frame)
            low = middle;
        else
            high = middle;
    }
    *first = (uint64_t)weir_array_int(utts, low * utts->width);
    *last = *first + (uint64_t)weir_array_int(utts, low * utts->width + 1) - 1;
}
