/* test_frames.c - speech frames: windows that stay within their utterance, and files that do not
 * fit together. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "help_idx.h"

/* 10 training frames of 2 features in utterances of 4, 1 and 5; 3 test frames in one. Feature 0 is
 * the frame's number times 10. */
enum { FRAMES = 10, FEATURES = 2 };
static const uint32_t first_of[] = {0, 0, 0, 0, 4, 5, 5, 5, 5, 5},
                      last_of[] = {3, 3, 3, 3, 4, 9, 9, 9, 9, 9};
static uint32_t value[FRAMES * FEATURES];

static void save_labels(const char *name, uint32_t n, uint32_t last)
{
    uint32_t label[FRAMES];

    for (uint32_t i = 0; i < n; i++)
        label[i] = i % 3;
    label[n - 1] = last;
    idx_save(name, 8, 1, &n, label, n);
}

static void good(void)
{
    static const uint32_t train[] = {FRAMES, FEATURES}, test[] = {3, FEATURES}, utts[] = {3, 5},
                          one[] = {1, 5};
    static const uint32_t utt[] = {0, 4, 7, 1, 0, 4, 1, 8, 1, 1, 5, 5, 9, 2, 0};
    static const uint32_t test_utt[] = {0, 3, 7, 3, 0};

    for (uint32_t i = 0; i < FRAMES; i++)
        value[2 * i] = i * 10, value[2 * i + 1] = i * i + 50;
    idx_save("train-frames-idx2-ubyte", 8, 2, train, value, FRAMES * FEATURES);
    idx_save("test-frames-idx2-ubyte", 8, 2, test, value, 3 * FEATURES);
    save_labels("train-frame-labels-idx1-ubyte", FRAMES, 4);
    save_labels("test-frame-labels-idx1-ubyte", 3, 2);
    idx_save("train-utts-idx2-int32", 0x0C, 2, utts, utt, 15);
    idx_save("test-utts-idx2-int32", 0x0C, 2, one, test_utt, 5);
}

/* What feature f of a frame is, standardised by itself over the training frames. */
static double standard(int64_t frame, int f)
{
    double sum = 0, squares = 0, mean;

    for (int i = 0; i < FRAMES; i++)
        sum += value[2 * i + f] / 255.0,
            squares += value[2 * i + f] / 255.0 * (value[2 * i + f] / 255.0);
    mean = sum / FRAMES;
    return (value[2 * frame + f] / 255.0 - mean) / sqrt(squares / FRAMES - mean * mean);
}

static void check_windows(int window)
{
    char spec[64];
    weir_data_use use;
    weir_data_batch b;

    snprintf(spec, sizeof spec, "frames:%%s,window=%d", window);
    assert_int_equal(idx_open(spec, 0, &use), WEIR_OK);
    assert_true(use.facts.dims == 1 && use.facts.dim[0] == window * FEATURES &&
                use.facts.classes == 5);
    assert_true(use.facts.count[WEIR_DATA_TRAIN] == FRAMES &&
                use.facts.count[WEIR_DATA_TEST] == 3 && !use.facts.streams[WEIR_DATA_TRAIN]);
    b = idx_get(&use, WEIR_DATA_TRAIN, 0, FRAMES, 0);
    for (int i = 0; i < FRAMES; i++) {
        for (int w = 0; w < window; w++) {
            int64_t at = i + w - window / 2;
            at = at < first_of[i] ? first_of[i] : at > last_of[i] ? last_of[i] : at;
            for (int f = 0; f < FEATURES; f++)
                assert_float_equal(b.x[(i * window + w) * FEATURES + f], standard(at, f), 1e-5);
        }
        assert_int_equal(b.label[i], i == FRAMES - 1 ? 4 : i % 3);
    }
    b = idx_get(&use, WEIR_DATA_TEST, 0, 3, 0);
    /* by the training part's mean */
    assert_float_equal(b.x[2 * (window / 2)], standard(0, 0), 1e-5);
    assert_float_equal(b.x[0], standard(0, 0), 1e-5);
    weir_data_close(&use);
}

static void windows_stay_within_their_utterance(void **unused)
{
    (void)unused;
    good();
    check_windows(1);
    check_windows(3);
    check_windows(11);
    check_windows(101);
    idx_shell("gzip %s/*");
    check_windows(5);
}

static void limits_and_classes(void **unused)
{
    weir_data_use use;
    (void)unused;

    good();
    assert_int_equal(idx_open("frames:%s,limit=4,test_limit=2,classes=31", 0, &use), WEIR_OK);
    assert_true(use.facts.count[WEIR_DATA_TRAIN] == 4 && use.facts.count[WEIR_DATA_TEST] == 2 &&
                use.facts.classes == 31);
    assert_int_equal(use.facts.dim[0], 22);
    weir_data_close(&use);
    idx_refused("frames:%s,window=4", WEIR_USAGE, "window=4", "an odd number");
    idx_refused("frames:%s,window=0", WEIR_USAGE, "window", "0");
    idx_refused("frames", WEIR_USAGE, "frames:DIR", "a directory");
}

static void bad_utterances(const uint32_t *utt, uint32_t rows, const char *words)
{
    uint32_t dim[] = {rows, 2};

    idx_save("train-utts-idx2-int32", 0x0C, 2, dim, utt, rows * 2);
    idx_refused("frames:%s", WEIR_INVALID, "train-utts-idx2-int32", words);
    good();
}

static void utterances_must_tile_the_frames(void **unused)
{
    static const uint32_t gap[] = {0, 4, 5, 5}, overlap[] = {0, 4, 3, 7}, longer[] = {0, 4, 4, 7},
                          shorter[] = {0, 4, 4, 5}, none[] = {0, 4, 4, 0, 4, 6},
                          negative[] = {0, 4, 4, 0xFFFFFFFF}, late[] = {1, 9},
                          before[] = {0xFFFFFFFF, 11}, column[] = {3, 1}, huge[] = {0, 0x7FFFFFFF};
    (void)unused;

    good();
    bad_utterances(gap, 2, "utterance 1 (from 0) has 5 frames from frame 5; 1 to 6 from frame 4");
    bad_utterances(overlap, 2, "utterance 1 (from 0) has 7 frames from frame 3");
    bad_utterances(longer, 2, "utterance 1 (from 0) has 7 frames from frame 4");
    bad_utterances(shorter, 2, "its utterances end with frame 8");
    bad_utterances(none, 3, "utterance 1 (from 0) has 0 frames");
    bad_utterances(negative, 2, "utterance 1 (from 0) has -1 frames");
    bad_utterances(late, 1, "from frame 1");
    bad_utterances(before, 1, "from frame -1");
    bad_utterances(huge, 1, "2147483647 frames");
    idx_save("train-utts-idx2-int32", 0x0C, 2, column, gap, 3);
    idx_refused("frames:%s", WEIR_INVALID, "train-utts-idx2-int32",
                "rows of 2 or more whole numbers");
    good();
    idx_save("train-utts-idx2-int32", 0x0D, 2, (const uint32_t[]){1, 2}, gap, 2);
    idx_refused("frames:%s", WEIR_INVALID, "train-utts-idx2-int32", "float32");
}

static void files_that_do_not_fit_are_refused(void **unused)
{
    static const uint32_t wide[] = {3, 3}, nine[] = {9}, flat[] = {3}, ten[] = {3, FEATURES};
    (void)unused;

    good();
    idx_save("test-frames-idx2-ubyte", 8, 2, wide, value, 9);
    idx_refused("frames:%s", WEIR_INVALID, "test-frames-idx2-ubyte",
                "frames of 3 values of type 08 were found; 2 of type 08");
    idx_save("test-frames-idx2-ubyte", 8, 1, flat, value, 3);
    idx_refused("frames:%s", WEIR_INVALID, "test-frames-idx2-ubyte", "1 dimensions were found");
    good();
    idx_save("train-frame-labels-idx1-ubyte", 8, 1, nine, value, 9);
    idx_refused("frames:%s", WEIR_INVALID, "train-frame-labels-idx1-ubyte",
                "9 labels were found, 10 were expected");
    good();
    save_labels("test-frame-labels-idx1-ubyte", 3, 5);
    idx_refused("frames:%s", WEIR_INVALID, "test-frame-labels-idx1-ubyte",
                "label 2 (from 0) is 5; 0 to 4 was expected");
    idx_refused("frames:%s,classes=4", WEIR_INVALID, "train-frame-labels-idx1-ubyte",
                "label 9 (from 0) is 4; 0 to 3");
    good();
    idx_save("test-frames-idx2-ubyte", 0x0C, 2, ten, value, 6);
    idx_refused("frames:%s", WEIR_INVALID, "test-frames-idx2-ubyte", "type 0c");
    idx_text("test-frames-idx2-ubyte", "no IDX at all");
    idx_refused("frames:%s", WEIR_INVALID, "test-frames-idx2-ubyte", "IDX was expected");
    idx_shell("rm %s/test-frames*");
    idx_refused("frames:%s", WEIR_INVALID, "", "there is no test-frames-*, plain or .gz");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, idx_setup, idx_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(windows_stay_within_their_utterance),
        CASE(limits_and_classes),
        CASE(utterances_must_tile_the_frames),
        CASE(files_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
