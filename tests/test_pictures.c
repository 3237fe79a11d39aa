/* test_pictures.c - CIFAR-10's batches, good and damaged; crop and flip. */
#include "core/file.h"
#include "data/cifar10_file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "help_idx.h"

enum {
    PLANE = WEIR_RECORD_PLANE,
    BYTES = WEIR_RECORD_BYTES,
    SIDE = WEIR_RECORD_SIDE,
    WIDTH = 3 * PLANE
};

static unsigned char records[8][BYTES];

/* Record r: label r, and values that differ by channel, place and record. */
static void make(void)
{
    for (int r = 0; r < 8; r++) {
        records[r][0] = (unsigned char)r;
        for (int k = 0; k < WIDTH; k++)
            records[r][1 + k] = (unsigned char)((k * 7 + r * 31) % 97 + k / PLANE * 40);
    }
}

static void good(void)
{
    make();
    idx_put("data_batch_1.bin", records[0], 2 * BYTES);
    idx_put("data_batch_2.bin", records[2], 3 * BYTES);
    idx_put("test_batch.bin", records[5], 3 * BYTES);
    idx_text("batches.meta.txt", "airplane\n");
}

static void channel_facts(int c, double *mean, double *deviation)
{
    double sum = 0, squares = 0;

    for (int r = 0; r < 5; r++)
        for (int k = 0; k < PLANE; k++) {
            double x = records[r][1 + c * PLANE + k] / 255.0;
            sum += x, squares += x * x;
        }
    *mean = sum / (5 * PLANE);
    *deviation = sqrt(squares / (5 * PLANE) - *mean * *mean);
}

static void check_samples(const weir_data_batch *b, int first)
{
    for (int c = 0; c < 3; c++) {
        double mean, deviation;
        channel_facts(c, &mean, &deviation);
        for (int i = 0; i < b->n; i++)
            for (int k = c * PLANE; k < (c + 1) * PLANE; k++)
                assert_float_equal(b->x[i * WIDTH + k],
                                   (records[first + i][1 + k] / 255.0 - mean) / deviation, 1e-5);
    }
    for (int i = 0; i < b->n; i++)
        assert_int_equal(b->label[i], first + i);
}

static void batches_are_read_and_standardised_by_channel(void **unused)
{
    weir_data_use use;
    weir_data_batch b;
    (void)unused;

    good();
    for (int packed = 0; packed < 2; packed++) {
        assert_int_equal(idx_open("cifar10:%s", 0, &use), WEIR_OK);
        assert_true(use.facts.dims == 3 && use.facts.dim[0] == 3 && use.facts.dim[1] == 32 &&
                    use.facts.dim[2] == 32);
        assert_true(use.facts.classes == 10 && use.facts.target == WEIR_TARGET_CLASSES &&
                    use.facts.value_scale == 1);
        assert_true(use.facts.count[WEIR_DATA_TRAIN] == 5 && use.facts.count[WEIR_DATA_TEST] == 3 &&
                    !use.facts.streams[WEIR_DATA_TRAIN]);
        b = idx_get(&use, WEIR_DATA_TRAIN, 0, 5, 0);
        check_samples(&b, 0);
        b = idx_get(&use, WEIR_DATA_TEST, 0, 3, 0);
        check_samples(&b, 5);
        weir_data_close(&use);
        if (!packed)
            idx_shell("gzip %s/data_batch_1.bin %s/test_batch.bin");
    }
    assert_int_equal(idx_open("cifar10:%s,limit=3,test_limit=1", 0, &use), WEIR_OK);
    assert_true(use.facts.count[WEIR_DATA_TRAIN] == 3 && use.facts.count[WEIR_DATA_TEST] == 1);
    b = idx_get(&use, WEIR_DATA_TRAIN, 0, 3, 0);
    check_samples(&b, 0); /* mean and deviation are still those of all five */
    weir_data_close(&use);
}

static void damaged_batches_are_refused(void **unused)
{
    (void)unused;
    good();
    idx_put("data_batch_2.bin", records[2], 3 * BYTES - 1);
    idx_refused("cifar10:%s", WEIR_INVALID, "data_batch_2.bin",
                "9218 bytes were found, a multiple of 3073 was expected");
    idx_put("data_batch_2.bin", "", 0);
    idx_refused("cifar10:%s", WEIR_INVALID, "data_batch_2.bin", "it is empty");
    good();
    records[6][0] = 10;
    idx_put("test_batch.bin", records[5], 3 * BYTES);
    idx_refused("cifar10:%s", WEIR_INVALID, "test_batch.bin",
                "record 1 (from 0) has the label 10; 0 to 9 was expected");
    good();
    idx_shell("gzip %s/data_batch_1.bin; truncate -s -20 %s/data_batch_1.bin.gz");
    idx_refused("cifar10:%s", WEIR_INVALID, "data_batch_1.bin.gz", "gzip");
    idx_shell("rm %s/data_batch*");
    idx_refused("cifar10:%s", WEIR_INVALID, "", "there is no data_batch_*.bin");
    good();
    idx_shell("rm %s/test_batch.bin");
    idx_refused("cifar10:%s", WEIR_INVALID, "", "there is no test_batch.bin");
    idx_refused("cifar10:%s/nowhere", WEIR_INVALID, "nowhere", "no directory");
    idx_refused("cifar10:%s,augment=perhaps", WEIR_USAGE, "augment", "perhaps");
}

static void the_name_alone_stands_for_a_place(void **unused)
{
    weir_data_use use;
    (void)unused;

    setenv("XDG_DATA_HOME", idx_dir, 1);
    idx_refused("cifar10", WEIR_INVALID, "/weir/cifar10", "run scripts/data cifar10");
    good();
    /* a directory that is given is what counts */
    assert_int_equal(idx_open("cifar10:%s,limit=1", 0, &use), WEIR_OK);
    weir_data_close(&use);
    idx_shell("mkdir -p %s/weir/cifar10 && cd %s && mv *.bin weir/cifar10");
    assert_int_equal(idx_open("cifar10", 0, &use), WEIR_OK);
    weir_data_close(&use);
    assert_int_equal(idx_open("cifar10:augment=yes,limit=4", 0, &use), WEIR_OK);
    assert_int_equal(use.facts.count[WEIR_DATA_TRAIN], 4);
    weir_data_close(&use);
    idx_refused("cifar10:%s", WEIR_INVALID, "", "there is no data_batch_*.bin");
    unsetenv("XDG_DATA_HOME");
}

/* ---- crop and flip ---- */

/* One channel of picture y as seen from x, shifted and perhaps mirrored: the one way that fits, or
 * -1. */
static int find_way(const float *x, const float *y, int height, int width)
{
    for (int way = 0; way < 9 * 9 * 2; way++) {
        int down = way / 2 % 9 - 4, right = way / 18 - 4;
        bool fits = true;
        for (int k = 0; fits && k < height * width; k++) {
            int row = k / width - down, col = (way % 2 ? width - 1 - k % width : k % width) - right;
            float want =
                row >= 0 && row < height && col >= 0 && col < width ? x[row * width + col] : 0;
            fits = y[k] == want;
        }
        if (fits)
            return way;
    }
    return -1;
}

static void crops_and_flips_are_that_and_no_more(void **unused)
{
    weir_data_use plain, other;
    int met[9 * 9 * 2] = {0}, ways = 0, flips = 0, moved[9] = {0};
    (void)unused;

    good();
    assert_int_equal(idx_open("cifar10:%s", 0, &plain), WEIR_OK);
    assert_int_equal(idx_open("cifar10:%s,augment=yes", 0, &other), WEIR_OK);
    weir_data_batch x = idx_get(&plain, WEIR_DATA_TRAIN, 0, 5, 0);
    for (uint64_t step = 0; step < 60; step++) {
        weir_data_batch y = idx_get(&other, WEIR_DATA_TRAIN, 0, 5, step);
        assert_memory_equal(x.label, y.label, sizeof(int32_t) * 5);
        for (int i = 0; i < 5; i++) {
            int way = find_way(x.x + i * WIDTH, y.x + i * WIDTH, SIDE, SIDE);
            assert_true(way >= 0);
            for (int c = 1; c < 3; c++) /* all channels move together */
                assert_int_equal(find_way(x.x + i * WIDTH + c * PLANE, y.x + i * WIDTH + c * PLANE,
                                          SIDE, SIDE),
                                 way);
            ways += !met[way]++;
            flips += way % 2;
            moved[way / 2 % 9]++;
        }
    }
    assert_in_range(flips, 110, 190); /* of 300 */
    assert_true(ways > 100);
    for (int i = 0; i < 9; i++)
        assert_in_range(moved[i], 10, 70);
    weir_data_close(&plain);
    weir_data_close(&other);
}

/* Which way depends on step and global sample: not on how a step is cut, nor on which sample stands
 * there. */
static void augmentation_is_keyed_by_step_and_place(void **unused)
{
    weir_data_use plain, other;
    (void)unused;

    good();
    assert_int_equal(idx_open("cifar10:%s", 0, &plain), WEIR_OK);
    assert_int_equal(idx_open("cifar10:%s,augment=yes", 0, &other), WEIR_OK);
    weir_data_batch whole = idx_get(&other, WEIR_DATA_TRAIN, 0, 5, 7),
                    piece = idx_get(&other, WEIR_DATA_TRAIN, 3, 2, 7);
    assert_memory_equal(whole.x + 3 * WIDTH, piece.x, 2 * WIDTH * sizeof(float));
    weir_data_batch later = idx_get(&other, WEIR_DATA_TRAIN, 0, 5, 8);
    assert_memory_not_equal(whole.x, later.x, 5 * WIDTH * sizeof(float));
    weir_data_batch a = idx_get(&plain, WEIR_DATA_TEST, 0, 3, 7),
                    b = idx_get(&other, WEIR_DATA_TEST, 0, 3, 7);
    assert_memory_equal(a.x, b.x, 3 * WIDTH * sizeof(float)); /* the test part is left alone */
    weir_data_close(&plain);
    weir_data_close(&other);
}

/* Pictures of 2x3, smaller than the frame: they may move out of sight. */
static void idx_pictures_are_augmented_too(void **unused)
{
    static const uint32_t vectors[] = {4, 6}, two[] = {2, 6};
    weir_data_use plain, other;
    int gone = 0;
    (void)unused;

    idx_good();
    assert_int_equal(idx_open("idx:%s", 0, &plain), WEIR_OK);
    assert_int_equal(idx_open("idx:%s,augment=yes", 0, &other), WEIR_OK);
    weir_data_batch x = idx_get(&plain, WEIR_DATA_TRAIN, 0, 4, 0);
    for (uint64_t step = 0; step < 20; step++) {
        weir_data_batch y = idx_get(&other, WEIR_DATA_TRAIN, 0, 4, step);
        for (int i = 0; i < 4; i++) {
            int way = find_way(x.x + i * 6, y.x + i * 6, 2, 3);
            assert_true(way >= 0);
            gone += way == 0;
        }
    }
    assert_in_range(gone, 10, 79);
    weir_data_close(&plain);
    weir_data_close(&other);
    idx_save("train-images-idx3-ubyte", 8, 2, vectors, idx_ramp, 24);
    idx_save("t10k-images-idx3-ubyte", 8, 2, two, idx_ramp, 12);
    idx_refused("idx:%s,augment=yes", WEIR_MISFIT, "train-images-idx3-ubyte",
                "augment=yes needs pictures");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, idx_setup, idx_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(batches_are_read_and_standardised_by_channel),
        CASE(damaged_batches_are_refused),
        CASE(the_name_alone_stands_for_a_place),
        CASE(crops_and_flips_are_that_and_no_more),
        CASE(augmentation_is_keyed_by_step_and_place),
        CASE(idx_pictures_are_augmented_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
