/* test_data.c - IDX files, good ones of every kind and damaged ones of every kind, written here;
 * sets by name; made-up pictures. */
#include "core/file.h"
#include "data/data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "help_idx.h"

static const weir_data_need no_need;

static weir_err try_open(const char *options, weir_data_use *use)
{
    char spec[200];

    snprintf(spec, sizeof spec, "idx:%s%s", idx_dir, options);
    return weir_data_open(spec, &no_need, idx_arena, use);
}

static void get_all(const weir_data_use *use, weir_data_part part, weir_data_batch *batch)
{
    static const uint64_t every[64] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    weir_data_pick pick = {.part = part, .index = every, .n = (int)use->facts.count[part]};

    assert_int_equal(weir_data_batch_new(&use->facts, pick.n, idx_arena, batch), WEIR_OK);
    assert_int_equal(use->data->get(use->self, &pick, batch), WEIR_OK);
    assert_int_equal(batch->n, pick.n);
}

/* ---- good files ---- */

static void bytes_are_read_and_standardised(void **unused)
{
    double sum = 0, squares = 0, mean, deviation;
    weir_data_use use;
    weir_data_batch batch;
    (void)unused;

    idx_good();
    assert_int_equal(try_open("", &use), WEIR_OK);
    assert_int_equal(use.facts.dims, 3);
    assert_true(use.facts.dim[0] == 1 && use.facts.dim[1] == 2 && use.facts.dim[2] == 3);
    assert_true(use.facts.classes == 4 && use.facts.target == WEIR_TARGET_CLASSES &&
                !use.facts.tokens_in);
    assert_true(use.facts.count[WEIR_DATA_TRAIN] == 4 && use.facts.count[WEIR_DATA_TEST] == 2);
    for (int i = 0; i < 24; i++)
        sum += idx_ramp[i] / 255.0, squares += idx_ramp[i] / 255.0 * (idx_ramp[i] / 255.0);
    mean = sum / 24, deviation = sqrt(squares / 24 - mean * mean);
    get_all(&use, WEIR_DATA_TRAIN, &batch);
    for (int i = 0; i < 24; i++)
        assert_float_equal(batch.x[i], (idx_ramp[i] / 255.0 - mean) / deviation, 1e-6);
    assert_true(batch.label[0] == 0 && batch.label[1] == 2 && batch.label[2] == 1 &&
                batch.label[3] == 3);
    get_all(&use, WEIR_DATA_TEST, &batch);
    for (int i = 0; i < 12; i++)
        assert_float_equal(batch.x[i], (idx_ramp[12 + i] / 255.0 - mean) / deviation, 1e-6);
    assert_true(batch.label[0] == 2 && batch.label[1] == 1);
    weir_data_close(&use);
}

static void gzip_and_other_names_are_read(void **unused)
{
    weir_data_use plain, packed;
    weir_data_batch a, b;
    (void)unused;

    idx_good();
    assert_int_equal(try_open("", &plain), WEIR_OK);
    idx_shell("gzip -k %s/* ");
    assert_int_equal(try_open("", &packed), WEIR_OK); /* both are there: the plain ones count */
    weir_data_close(&packed);
    idx_shell("cd %s && rm *ubyte && mv t10k-images-idx3-ubyte.gz test-images.idx3-ubyte.gz");
    assert_int_equal(try_open("", &packed), WEIR_OK);
    get_all(&plain, WEIR_DATA_TEST, &a);
    get_all(&packed, WEIR_DATA_TEST, &b);
    assert_memory_equal(a.x, b.x, 12 * sizeof(float));
    weir_data_close(&plain);
    weir_data_close(&packed);
}

static uint32_t bits(float x)
{
    uint32_t b;

    memcpy(&b, &x, sizeof b);
    return b;
}

/* int32 and float32, of 2 and of 4 dimensions, labels of int32. */
static void other_types_and_shapes_are_read(void **unused)
{
    static const uint32_t vectors[] = {3, 4}, pictures[] = {3, 2, 1, 2}, label[] = {0, 700000, 5};
    uint32_t value[12];
    float mean[2] = {0};
    (void)unused;

    idx_good();
    for (int kind = 0; kind < 2; kind++) {
        weir_data_use use;
        weir_data_batch batch;
        for (int i = 0; i < 12; i++)
            value[i] = kind ? bits((float)i * 1e30f) : (uint32_t)(i * 100000000 - 600000000);
        for (int part = 0; part < 2; part++) {
            idx_save(part ? "t10k-images-idx3-ubyte" : "train-images-idx3-ubyte",
                     kind ? 0x0D : 0x0C, kind ? 4 : 2, kind ? pictures : vectors, value, 12);
            idx_save(part ? "t10k-labels-idx1-ubyte" : "train-labels-idx1-ubyte", 0x0C, 1, vectors,
                     label, 3);
        }
        assert_int_equal(try_open("", &use), WEIR_OK);
        assert_int_equal(use.facts.classes, 700001);
        assert_int_equal(use.facts.dims, kind ? 3 : 1);
        assert_true(use.facts.dim[0] == (kind ? 2 : 4) &&
                    (!kind || (use.facts.dim[1] == 1 && use.facts.dim[2] == 2)));
        get_all(&use, WEIR_DATA_TEST, &batch);
        for (int i = 0; i < 12; i++) {
            assert_float_equal(batch.x[i], (i - 5.5) / sqrt(143.0 / 12), 1e-5);
            mean[kind] += batch.x[i];
        }
        assert_float_equal(mean[kind], 0, 1e-5);
        assert_int_equal(batch.label[1], 700000);
        weir_data_close(&use);
    }
}

static void equal_values_become_zero(void **unused)
{
    static const uint32_t dim[] = {2, 2}, label[] = {0, 1};
    uint32_t value[] = {bits(0.1f), bits(0.1f), bits(0.1f), bits(0.1f)};
    weir_data_use use;
    weir_data_batch batch;
    (void)unused;

    for (int part = 0; part < 2; part++) {
        idx_save(part ? "test-images-x" : "train-images-x", 0x0D, 2, dim, value, 4);
        idx_save(part ? "test-labels-x" : "train-labels-x", 8, 1, dim, label, 2);
    }
    assert_int_equal(try_open("", &use), WEIR_OK);
    get_all(&use, WEIR_DATA_TRAIN, &batch);
    for (int i = 0; i < 4; i++)
        assert_float_equal(batch.x[i], 0, 1e-7);
    weir_data_close(&use);
}

static void limits_shorten_and_change_no_sample(void **unused)
{
    weir_data_use all, few;
    weir_data_batch a, b;
    (void)unused;

    idx_good();
    assert_int_equal(try_open("", &all), WEIR_OK);
    assert_int_equal(try_open(",limit=3,test_limit=1", &few), WEIR_OK);
    assert_true(few.facts.count[WEIR_DATA_TRAIN] == 3 && few.facts.count[WEIR_DATA_TEST] == 1 &&
                few.facts.classes == 4);
    get_all(&all, WEIR_DATA_TRAIN, &a);
    get_all(&few, WEIR_DATA_TRAIN, &b);
    assert_memory_equal(a.x, b.x, 18 * sizeof(float));
    weir_data_close(&few);
    assert_int_equal(try_open(",limit=1000", &few), WEIR_OK);
    assert_int_equal(few.facts.count[WEIR_DATA_TRAIN], 4);
    weir_data_close(&few);
    weir_data_close(&all);
}

/* ---- damaged files: each is named, with what is wrong ---- */

static void refused(const char *file, const char *words)
{
    weir_data_use use = {.facts.dims = 77};

    assert_int_equal(try_open("", &use), WEIR_INVALID);
    if (!strstr(weir_why_text(), file) || !strstr(weir_why_text(), words))
        fail_msg("'%s' should name %s and say '%s'", weir_why_text(), file, words);
    assert_int_equal(use.facts.dims, 77);
    idx_good();
}

static void spoil(const char *name, int type, int dims, const uint32_t *dim, size_t values,
                  const char *words)
{
    static const uint32_t zeros[64];

    idx_save(name, type, dims, dim, zeros, values);
    refused(name, words);
}

static void damaged_arrays_are_refused(void **unused)
{
    static const char name[] = "train-images-idx3-ubyte";
    static const uint32_t good[] = {4, 2, 3, 1, 1}, none[] = {4, 0, 3},
                          huge[] = {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF};
    idx_bytes f = {0};
    (void)unused;

    idx_good();
    idx_write(name, &f);
    refused(name, "0 bytes were found");
    spoil(name, 8, 3, good, 23, "cut short");
    spoil(name, 8, 3, good, 25, "too long");
    spoil(name, 0x0C, 3, good, 23, "cut short");
    spoil(name, 0x0B, 3, good, 24, "00 00 0b 03");
    spoil(name, 0x1008, 3, good, 24, "00 10 08 03");
    spoil(name, 8, 0, good, 0, "0 dimensions");
    spoil(name, 8, 5, good, 24, "5 dimensions");
    spoil(name, 8, 1, good, 4, "1 dimension ");
    spoil(name, 8, 3, none, 0, "dimension 2 is 0");
    spoil(name, 8, 4, huge, 10, "more values than any file");
    f = idx_array(8, 3, good, idx_ramp, 0);
    f.n = 11;
    idx_write(name, &f);
    refused(name, "within its header");
}

static void damaged_labels_are_refused(void **unused)
{
    static const char name[] = "t10k-labels-idx1-ubyte";
    static const uint32_t two[] = {2, 1}, three[] = {3}, negative[] = {1, 0xFFFFFFFF},
                          large[] = {1000001, 0};
    (void)unused;

    idx_good();
    spoil(name, 8, 1, three, 3, "3 labels were found, 2 were expected");
    spoil(name, 8, 2, two, 2, "2 dimensions");
    spoil(name, 0x0D, 1, two, 2, "float32");
    idx_save(name, 0x0C, 1, two, negative, 2);
    refused(name, "label 1 (from 0) is -1");
    idx_save(name, 0x0C, 1, two, large, 2);
    refused(name, "label 0 (from 0) is 1000001");
}

/* A class that no training label shows, or one beyond those that were promised. */
static void labels_beyond_the_classes_are_refused(void **unused)
{
    static const uint32_t two[] = {2}, label[] = {1, 4};
    weir_data_use use;
    (void)unused;

    idx_good();
    idx_save("t10k-labels-idx1-ubyte", 8, 1, two, label, 2);
    refused("t10k-labels-idx1-ubyte", "label 1 (from 0) is 4; 0 to 3 was expected");
    idx_refused("idx:%s,classes=3", WEIR_INVALID, "train-labels-idx1-ubyte",
                "label 3 (from 0) is 3; 0 to 2 was expected");
    assert_int_equal(try_open(",classes=9", &use), WEIR_OK);
    assert_int_equal(use.facts.classes, 9);
    weir_data_close(&use);
}

static void parts_that_do_not_fit_are_refused(void **unused)
{
    static const uint32_t wide[] = {2, 3, 3}, flat[] = {2, 6}, same[] = {2, 2, 3};
    (void)unused;

    idx_good();
    spoil("t10k-images-idx3-ubyte", 8, 3, wide, 18, "samples of 3x3 were found, 2x3 was expected");
    spoil("t10k-images-idx3-ubyte", 8, 2, flat, 12, "samples of 6 were found, 2x3 was expected");
    spoil("t10k-images-idx3-ubyte", 0x0C, 3, same, 12, "type 0c were found, 08 was expected");
}

static void floats_that_are_none_are_refused(void **unused)
{
    static const uint32_t dim[] = {4, 2, 3}, test[] = {2, 2, 3};
    uint32_t value[24] = {0};
    (void)unused;

    idx_good();
    value[7] = bits(NAN);
    idx_save("train-images-idx3-ubyte", 0x0D, 3, dim, value, 24);
    refused("train-images-idx3-ubyte", "value 1 of sample 1 (both from 0) is not a number");
    value[7] = bits(-INFINITY);
    idx_save("train-images-idx3-ubyte", 0x0D, 3, dim, value, 24);
    refused("train-images-idx3-ubyte", "is infinite");
    value[7] = 1; /* the smallest float there is: the deviation is tiny, and 1 is far away */
    idx_save("train-images-idx3-ubyte", 0x0D, 3, dim, value, 24);
    value[7] = 0, value[9] = bits(1);
    idx_save("t10k-images-idx3-ubyte", 0x0D, 3, test, value, 12);
    refused("t10k-images-idx3-ubyte", "value 3 of sample 1 (both from 0) is 1, too far");
}

static void missing_and_doubtful_files_are_refused(void **unused)
{
    weir_data_use use;
    (void)unused;

    idx_good();
    idx_shell("rm %s/t10k-labels*");
    refused("", "there is no t10k-labels-* or test-labels-*");
    idx_shell("cp %s/train-images-idx3-ubyte %s/train-images-other");
    refused("train-images-other", "one of them was expected");
    idx_shell("rm %s/train-images-other; gzip %s/train-images*");
    idx_shell("cd %s; head -c 40 train-images*.gz > x; mv x train-images-idx3-ubyte.gz");
    refused("train-images-idx3-ubyte.gz", "gzip");
    assert_int_equal(weir_data_open("idx:/nowhere/at/all", NULL, idx_arena, &use), WEIR_INVALID);
    assert_non_null(strstr(weir_why_text(), "/nowhere/at/all"));
    assert_int_equal(weir_data_open("idx", &no_need, idx_arena, &use), WEIR_USAGE);
    assert_int_equal(weir_data_open("idx:/tmp,limit=-1", &no_need, idx_arena, &use), WEIR_USAGE);
}

/* ---- sets by name ---- */

static void names_stand_for_places(void **unused)
{
    weir_data_use use;
    (void)unused;

    setenv("XDG_DATA_HOME", idx_dir, 1);
    assert_int_equal(weir_data_open("mnist", &no_need, idx_arena, &use), WEIR_INVALID);
    assert_non_null(strstr(weir_why_text(), "run scripts/data mnist"));
    assert_non_null(strstr(weir_why_text(), idx_dir));
    idx_good();
    idx_shell("mkdir -p %s/weir/mnist && cd %s && mv *ubyte* weir/mnist");
    assert_int_equal(weir_data_open("mnist:limit=3", &no_need, idx_arena, &use), WEIR_OK);
    assert_int_equal(use.facts.count[WEIR_DATA_TRAIN], 3);
    weir_data_close(&use);
    assert_int_equal(weir_data_open("mnist:limmit=3", &no_need, idx_arena, &use), WEIR_USAGE);
    unsetenv("XDG_DATA_HOME");
    setenv("HOME", idx_dir, 1);
    idx_shell("mkdir %s/.local && mkdir %s/.local/share");
    idx_shell("mv %s/weir %s/.local/share/");
    assert_int_equal(weir_data_open("mnist", &no_need, idx_arena, &use), WEIR_OK);
    weir_data_close(&use);
    unsetenv("HOME");
    assert_int_equal(weir_data_open("mnist", &no_need, idx_arena, &use), WEIR_INVALID);
    assert_non_null(strstr(weir_why_text(), "or give idx:DIR"));
    /* a place that is given needs none */
    assert_int_equal(idx_open("mnist:%s/.local/share/weir/mnist", 0, &use), WEIR_OK);
    weir_data_close(&use);
    assert_int_equal(weir_data_open("mnistt", &no_need, idx_arena, &use), WEIR_USAGE);
    assert_non_null(strstr(weir_why_text(),
                           "fashion-mnist, mnist, idx, cifar10, frames, csv, text, tokens, synth"));
}

/* The mean and deviation of Fashion-MNIST are well known. */
static void fashion_mnist_is_itself(void **unused)
{
    weir_data_use use;
    weir_data_batch batch;
    double black = 0;
    (void)unused;

    if (!weir_path_exists("/usr/share/datasets/fashion-mnist")) {
        assert_int_equal(weir_data_open("fashion-mnist", &no_need, idx_arena, &use), WEIR_INVALID);
        assert_non_null(strstr(weir_why_text(), "dataset-fashion-mnist"));
        return;
    }
    assert_int_equal(weir_data_open("fashion-mnist:test_limit=5", &no_need, idx_arena, &use),
                     WEIR_OK);
    assert_true(use.facts.count[WEIR_DATA_TRAIN] == 60000 && use.facts.count[WEIR_DATA_TEST] == 5 &&
                use.facts.classes == 10);
    get_all(&use, WEIR_DATA_TEST, &batch);
    black = batch.x[0];
    assert_float_equal(black, -0.28604 / 0.35302, 1e-4);
    assert_true(batch.label[0] == 9 && batch.label[1] == 2 && batch.label[2] == 1 &&
                batch.label[3] == 1 && batch.label[4] == 6);
    weir_data_close(&use);
}

static void tables_are_sound(void **unused)
{
    (void)unused;
    assert_int_equal(weir_plug_check(weir_datas, "data"), WEIR_OK);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, idx_setup, idx_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(bytes_are_read_and_standardised),
        CASE(gzip_and_other_names_are_read),
        CASE(other_types_and_shapes_are_read),
        CASE(equal_values_become_zero),
        CASE(limits_shorten_and_change_no_sample),
        CASE(damaged_arrays_are_refused),
        CASE(damaged_labels_are_refused),
        CASE(labels_beyond_the_classes_are_refused),
        CASE(parts_that_do_not_fit_are_refused),
        CASE(floats_that_are_none_are_refused),
        CASE(missing_and_doubtful_files_are_refused),
        CASE(names_stand_for_places),
        CASE(fashion_mnist_is_itself),
        CASE(tables_are_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
