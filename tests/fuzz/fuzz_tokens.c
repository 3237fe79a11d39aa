/* fuzz_tokens.c - any bytes as a file of tokens, cut into as many streams and windows of such a
 * length as the first bytes say: every window lies within the tokens, goes on where the one before
 * ended, and is followed by its targets. */
#include "data/sequence.h"
#include "data/token_file.h"
#include "fuzz.h"

static void use_windows(const weir_sequences *q, const weir_data_facts *facts, int part)
{
    uint64_t length = (uint64_t)facts->dim[0],
             windows = facts->count[part] / (uint64_t)facts->streams[part];
    int32_t *token = calloc(length, sizeof *token), *label = calloc(length, sizeof *label),
            last = 0;

    check(token && label && windows > 0);
    for (uint64_t i = 0; i < facts->count[part]; i++) {
        weir_data_pick pick = {.part = (weir_data_part)part, .index = &i, .n = 1};
        weir_data_batch batch = {.room = 1, .token = token, .label = label};
        check(!weir_sequences_get(q, &pick, &batch));
        check(i % windows == 0 || token[0] == last);
        check(!memcmp(token + 1, label, (length - 1) * sizeof *token));
        for (uint64_t k = 0; k < length; k++)
            check(token[k] >= 0 && token[k] < facts->classes && label[k] >= 0 &&
                  label[k] < facts->classes);
        last = label[length - 1];
    }
    free(token);
    free(label);
}

static void use_file(const weir_token_file *f, size_t streams, size_t length)
{
    void *memory = malloc(f->tokens * (size_t)f->width);
    weir_sequence all = {.name = "file", .token = memory, .width = f->width, .tokens = f->tokens};
    weir_sequences q = {.part = {all, all}, .length = (int64_t)length + 1, .memory = {memory}};
    weir_data_facts facts;
    uint32_t most = 0;

    check(memory);
    if (!weir_token_file_copy(f, memory, 1 << 20, &most) &&
        !weir_sequences_cut(&q, &(weir_data_need){.batch = (int64_t)streams}, (int64_t)most + 1,
                            &facts))
        for (int part = 0; part < WEIR_DATA_PARTS; part++)
            use_windows(&q, &facts, part);
    weir_sequences_close(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t streams, length;
    weir_token_file f;
    void *bytes;

    if (!take(&data, &n, &streams) || !take(&data, &n, &length))
        return 0;
    bytes = copy(data, n);
    if (!weir_token_file_parse("file", bytes, n, &f))
        use_file(&f, streams, length);
    free(bytes);
    return 0;
}
