/* sequence.c - streams and windows: arithmetic only. */
#include "data/sequence.h"
#include "core/hash.h"
#include <stdlib.h>

uint64_t weir_sequences_split(uint64_t tokens) { return tokens / 10 * 9 + tokens % 10 * 9 / 10; }

static weir_err cut(weir_sequence *s, uint64_t streams, uint64_t length, bool fewer)
{
    uint64_t most = s->tokens / (length + 1);

    if (fewer && most && streams > most)
        streams = most;
    if (!most || streams > most) {
        uint64_t needed = fewer ? 1 : streams;
        return weir_fail(WEIR_MISFIT,
                         "%s: %llu tokens are too few: %llu stream%s of length=%llu and a token "
                         "more need %llu; give a smaller %slength",
                         s->name, (unsigned long long)s->tokens, (unsigned long long)needed,
                         needed == 1 ? "" : "s", (unsigned long long)length,
                         (unsigned long long)(needed * (length + 1)),
                         needed == 1 ? "" : "--batch or ");
    }
    s->streams = streams;
    s->each = s->tokens / streams;
    s->windows = (s->each - 1) / length;
    return WEIR_OK;
}

weir_err weir_sequences_cut(weir_sequences *q, const weir_data_need *need, int64_t vocabulary,
                            weir_data_facts *facts)
{
    weir_data_facts made = {.target = WEIR_TARGET_TOKENS,
                            .classes = vocabulary,
                            .tokens_in = true,
                            .dims = 1,
                            .dim = {q->length, 1, 1, 1}};
    uint64_t streams = need->batch > 0 ? (uint64_t)need->batch : 1;

    for (int part = need->test_only ? WEIR_DATA_TEST : WEIR_DATA_TRAIN; part < WEIR_DATA_PARTS;
         part++) {
        WEIR_TRY(cut(&q->part[part], streams, (uint64_t)q->length, part == WEIR_DATA_TEST));
        made.streams[part] = (int64_t)q->part[part].streams;
        made.count[part] = q->part[part].streams * q->part[part].windows;
    }
    *facts = made;
    return WEIR_OK;
}

static int32_t token_at(const weir_sequence *s, uint64_t i)
{
    return s->width == 2 ? ((const uint16_t *)s->token)[i]
                         : (int32_t)((const uint32_t *)s->token)[i];
}

weir_err weir_sequences_get(const void *self, const weir_data_pick *pick, weir_data_batch *batch)
{
    const weir_sequences *q = self;
    const weir_sequence *s = &q->part[pick->part];
    uint64_t length = (uint64_t)q->length;

    for (int i = 0; i < pick->n; i++) {
        uint64_t first =
            pick->index[i] / s->windows * s->each + pick->index[i] % s->windows * length;
        int32_t *token = batch->token + (uint64_t)i * length,
                *label = batch->label + (uint64_t)i * length;
        for (uint64_t k = 0; k < length; k++) {
            token[k] = token_at(s, first + k);
            label[k] = token_at(s, first + k + 1);
        }
    }
    batch->n = pick->n;
    return WEIR_OK;
}

uint64_t weir_sequences_hash(const void *self, weir_data_part part)
{
    const weir_sequence *s = &((const weir_sequences *)self)->part[part];

    return weir_hash(s->token, s->tokens * (uint64_t)s->width, (uint64_t)s->width);
}

void weir_sequences_close(void *self)
{
    weir_sequences *q = self;

    for (int part = 0; part < WEIR_DATA_PARTS; part++)
        free(q->memory[part]);
}
