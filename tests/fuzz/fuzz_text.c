/* fuzz_text.c - any bytes as a training and a test text, by words or characters, cut where the
 * first bytes say: units cover what is no white space, every number is below the vocabulary, and a
 * text knows all of its own words. */
#include "data/vocab.h"
#include "fuzz.h"

static void learn(weir_reader r, weir_vocab *words)
{
    uint64_t units = weir_reader_count(r);
    uint32_t number;

    for (; weir_reader_next(&r); units--) {
        check(r.n > 0);
        check(!weir_vocab_add(words, r.unit, r.n, &number) && number < words->count);
        check(words->word[number].n == r.n);
        check(!memcmp(words->text + words->word[number].at, r.unit, r.n));
    }
    check(units == 0);
}

static void apply(weir_reader r, const weir_vocab *words, bool known)
{
    uint64_t line = 1;
    uint32_t number;

    for (; weir_reader_next(&r); line = r.line) {
        check(r.line >= line);
        if (weir_vocab_find(words, r.unit, r.n, &number))
            check(number < words->count);
        else
            check(!known);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    weir_vocab words = {0};
    weir_text_unit unit;
    size_t cut;
    char *train, *test;

    if (!take(&data, &n, &cut))
        return 0;
    unit = cut & 0x8000 ? WEIR_TEXT_CHAR : WEIR_TEXT_WORD;
    cut &= 0x7FFF;
    if (cut > n)
        return 0;
    train = copy(data, cut);
    test = copy(data + cut, n - cut);
    learn(weir_reader_at("train", train, cut, unit), &words);
    apply(weir_reader_at("train", train, cut, unit), &words, true);
    apply(weir_reader_at("test", test, n - cut, unit), &words, false);
    weir_vocab_free(&words);
    free(train);
    free(test);
    return 0;
}
