/* fuzz_frames.c - any bytes as frames, labels and utterances, cut where the first four bytes say:
 * what is let through has each frame in one utterance, a label for it, and finite values. */
#include "data/standard.h"
#include "data/utterances.h"
#include "fuzz.h"
#include <math.h>

static void use_all(const weir_array *frames, const weir_array *label, const weir_array *utts,
                    int64_t classes)
{
    static weir_standard standard;
    uint64_t first = 0, last, before = 0;

    for (uint64_t f = 0; f < frames->width; f++) {
        weir_standard_set(&standard, weir_scale_fit(frames, f, frames->width));
        for (uint64_t i = 0;
             !weir_standard_check(&standard, frames, f, frames->width) && i < frames->dim[0]; i++)
            check(isfinite(weir_standard_value(&standard, frames, i * frames->width + f)));
    }
    for (uint64_t i = 0; i < frames->dim[0]; i++, before = first) {
        int32_t class = weir_array_int(label, i);
        weir_utterances_span(utts, i, &first, &last);
        check(class >= 0 && class < classes);
        check(first <= i && i <= last && last < frames->dim[0] && first >= before);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t one, two;
    void *a, *b, *c;
    weir_array frames, label, utts;
    int64_t classes = 0;

    if (!take(&data, &n, &one) || !take(&data, &n, &two) || one > n || two > n - one)
        return 0;
    a = copy(data, one);
    b = copy(data + one, two);
    c = copy(data + one + two, n - one - two);
    if (!weir_array_parse("frames", a, one, &frames) &&
        !weir_array_parse("labels", b, two, &label) &&
        !weir_array_parse("utterances", c, n - one - two, &utts) &&
        !weir_utterances_check(&frames, &utts) && !weir_array_labels(&frames, &label, &classes))
        use_all(&frames, &label, &utts, classes);
    free(a);
    free(b);
    free(c);
    return 0;
}
