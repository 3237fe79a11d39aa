/* Random numbers: Random123's known answers, streams that do not meet, shuffles that are
 * permutations and look like chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "core/hash.h"
#include "core/rng.h"

/* the file kat_vectors of Random123, philox4x32 with 10 rounds */
static void philox_gives_the_published_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    uint32_t out[4];

    (void)state;
    for (int i = 0; i < 3; i++) {
        weir_philox(known[i].key, known[i].counter, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void a_stream_is_a_pure_function_of_its_place(void **state)
{
    weir_rng a = weir_rng_at(5, WEIR_RNG_TEST, 1ull << 40 | 3, 9), b = a;

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(weir_rng_u32(&a), weir_rng_u32(&b));
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Changing any one part of the place gives other numbers: 64-bit draws of all neighbours are all
 * different. */
static void streams_do_not_meet(void **state)
{
    enum { DRAWS = 64, STREAMS = 2 * 3 * 4 * 4 };
    static uint64_t seen[STREAMS * DRAWS];
    const uint64_t seed[2] = {1, 1ull << 32 | 1}, a[4] = {0, 1, 1ull << 32, 1ull << 63};
    const uint32_t b[4] = {0, 1, 2, 0xffffffff};
    size_t n = 0;

    (void)state;
    for (int i = 0; i < STREAMS; i++) {
        weir_rng r =
            weir_rng_at(seed[i % 2], (weir_rng_use)(i / 2 % 3 + 1), a[i / 6 % 4], b[i / 24]);
        for (int k = 0; k < DRAWS; k++) {
            uint64_t high = weir_rng_u32(&r);
            seen[n++] = high << 32 | weir_rng_u32(&r);
        }
    }
    qsort(seen, n, sizeof *seen, by_value);
    for (size_t i = 1; i < n; i++)
        assert_true(seen[i] != seen[i - 1]);
}

static void below_is_in_range_and_even(void **state)
{
    enum { N = 7, DRAWS = 70000 };
    weir_rng r = weir_rng_at(2, WEIR_RNG_TEST, 0, 0);
    int count[N] = {0}, low = 0;
    double chi = 0;

    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        uint64_t x = weir_rng_below(&r, N);
        assert_true(x < N);
        count[x]++;
    }
    for (int i = 0; i < N; i++)
        chi += (count[i] - DRAWS / N) * (double)(count[i] - DRAWS / N) / (DRAWS / N);
    assert_true(chi < 30); /* 6 degrees of freedom: one seed in 25000 is worse */
    /* of 2^64 draws a quarter must be refused, or the lowest third gets half of all */
    for (int i = 0; i < 9000; i++)
        low += weir_rng_below(&r, 3ull << 62) < 1ull << 62;
    assert_true(abs(low - 3000) < 5 * 45);
    assert_int_equal(weir_rng_below(&r, 1), 0);
    assert_true(weir_rng_below(&r, (1ull << 63) + 1) <= 1ull << 63);
}

static void unit_and_normal_have_their_moments(void **state)
{
    enum { DRAWS = 200000 };
    weir_rng r = weir_rng_at(3, WEIR_RNG_TEST, 0, 0);
    double u = 0, u2 = 0, z = 0, z2 = 0, z4 = 0, tail = 0;

    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        double x = weir_rng_unit(&r), y = weir_rng_normal(&r);
        assert_true(x >= 0 && x < 1 && isfinite(y));
        u += x, u2 += x * x, z += y, z2 += y * y, z4 += y * y * y * y, tail += fabs(y) > 1.959964;
    }
    /* five standard errors each */
    assert_true(fabs(u / DRAWS - 0.5) < 5 * sqrt(1.0 / 12 / DRAWS));
    assert_true(fabs(u2 / DRAWS - 1.0 / 3) < 5 * sqrt(4.0 / 45 / DRAWS));
    assert_true(fabs(z / DRAWS) < 5 * sqrt(1.0 / DRAWS));
    assert_true(fabs(z2 / DRAWS - 1) < 5 * sqrt(2.0 / DRAWS));
    assert_true(fabs(z4 / DRAWS - 3) < 5 * sqrt(96.0 / DRAWS));
    assert_true(fabs(tail / DRAWS - 0.05) < 5 * sqrt(0.05 * 0.95 / DRAWS));
}

/* the polar method again, with libm's logarithm */
static void normal_agrees_with_libm(void **state)
{
    weir_rng r = weir_rng_at(4, WEIR_RNG_TEST, 0, 0), same = r;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        double x, y, want;
        do {
            x = (weir_rng_u32(&same) + 0.5) / 2147483648.0 - 1;
            y = (weir_rng_u32(&same) + 0.5) / 2147483648.0 - 1;
        } while (x * x + y * y >= 1);
        want = x * sqrt(-2 * log(x * x + y * y) / (x * x + y * y));
        assert_true(fabs(weir_rng_normal(&r) - want) <= 1e-7 * fabs(want));
    }
}

/* Pinned, so that a change of the generator, which would change every run, is noticed; and the same
 * on every machine. */
static void drawn_numbers_stay_what_they_are(void **state)
{
    weir_rng r = weir_rng_at(1, WEIR_RNG_TEST, 2, 3);
    float z[1000];
    uint64_t place[50];

    (void)state;
    for (int i = 0; i < 1000; i++)
        z[i] = weir_rng_normal(&r);
    for (uint64_t i = 0; i < 50; i++)
        place[i] = weir_rng_shuffle(1, 2, 50000, i * 1000);
    assert_true(weir_hash(z, sizeof z, 0) == 0xd62856bcdfb97a22ull);
    assert_true(weir_hash(place, sizeof place, 0) == 0xe76ac55659bfbbb6ull);
}

/* ---- shuffles ---- */

static void check_permutation(uint64_t seed, uint64_t epoch, uint64_t n)
{
    bool *seen = calloc(n, 1);

    assert_non_null(seen);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t x = weir_rng_shuffle(seed, epoch, n, i);
        if (x >= n || seen[x])
            fail_msg("n = %llu, place %llu: %llu is outside or there twice", (unsigned long long)n,
                     (unsigned long long)i, (unsigned long long)x);
        seen[x] = true;
    }
    free(seen);
}

static void every_shuffle_is_a_permutation(void **state)
{
    const uint64_t large[] = {1023, 1024, 1025, 4097, 60000, 65535, 65536, 65537, 100003};

    (void)state;
    for (uint64_t n = 1; n <= 300; n++)
        check_permutation(n, 300 - n, n);
    for (int i = 0; i < 9; i++)
        check_permutation(1, (uint64_t)i, large[i]);
}

/* Nobody can list these, but a place must be inside and cost no more than others. */
static void huge_shuffles_stay_inside(void **state)
{
    const uint64_t n[] = {(1ull << 32) - 1, (1ull << 32) + 1, (1ull << 62) + 1, UINT64_MAX};

    (void)state;
    for (int i = 0; i < 4; i++) {
        uint64_t before = 0;
        for (uint64_t k = 0; k < 1000; k++) {
            uint64_t x = weir_rng_shuffle(1, 1, n[i], n[i] - 1 - k);
            assert_true(x < n[i] && x != before);
            before = x;
        }
    }
}

static void seed_and_epoch_change_the_order(void **state)
{
    int same_seed = 0, same_epoch = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t x = weir_rng_shuffle(1, 1, 1000, i);
        same_seed += x == weir_rng_shuffle(2, 1, 1000, i);
        same_epoch += x == weir_rng_shuffle(1, 2, 1000, i);
    }
    /* chance leaves one place in a thousand alone: about 1 of 1000 */
    assert_true(same_seed < 10 && same_epoch < 10);
}

/* Over many epochs each number comes to each place equally often; so does each pair of numbers to
 * the first two places. */
static void check_even(uint64_t n, int epochs)
{
    int *at = calloc(n * n, sizeof *at), *pair = calloc(n * n, sizeof *pair);
    double want = (double)epochs / (double)n, pairs = (double)epochs / (double)(n * (n - 1)),
           chi = 0, chi2 = 0, cells;

    assert_true(at && pair);
    for (int e = 0; e < epochs; e++) {
        for (uint64_t i = 0; i < n; i++)
            at[i * n + weir_rng_shuffle(9, (uint64_t)e, n, i)]++;
        pair[weir_rng_shuffle(9, (uint64_t)e, n, 0) * n + weir_rng_shuffle(9, (uint64_t)e, n, 1)]++;
    }
    for (uint64_t i = 0; i < n * n; i++) {
        chi += (at[i] - want) * (at[i] - want) / want;
        if (i / n != i % n)
            chi2 += (pair[i] - pairs) * (pair[i] - pairs) / pairs;
    }
    free(at), free(pair);
    cells = (double)((n - 1) * (n - 1));
    if (chi > cells + 5 * sqrt(2 * cells))
        fail_msg("places are uneven: n = %llu, chi-square %g for %g degrees", (unsigned long long)n,
                 chi, cells);
    cells = (double)(n * (n - 1) - 1);
    if (chi2 > cells + 5 * sqrt(2 * cells))
        fail_msg("pairs are uneven: n = %llu, chi-square %g for %g degrees", (unsigned long long)n,
                 chi2, cells);
}

static void shuffles_are_even(void **state)
{
    (void)state;
    check_even(3, 6000);
    check_even(5, 10000);
    check_even(10, 20000);
    check_even(16, 20000);
    check_even(37, 20000);
}

static void hash_is_xxh3(void **state)
{
    (void)state;
    assert_true(weir_hash("", 0, 0) == 0x2d06800538d394c2ull); /* published for the empty string */
    assert_true(weir_hash("weir", 4, 0) != weir_hash("weir", 4, 1));
    assert_true(weir_hash("weir", 4, 0) != weir_hash("weis", 4, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(a_stream_is_a_pure_function_of_its_place),
        cmocka_unit_test(streams_do_not_meet),
        cmocka_unit_test(below_is_in_range_and_even),
        cmocka_unit_test(unit_and_normal_have_their_moments),
        cmocka_unit_test(normal_agrees_with_libm),
        cmocka_unit_test(drawn_numbers_stay_what_they_are),
        cmocka_unit_test(every_shuffle_is_a_permutation),
        cmocka_unit_test(huge_shuffles_stay_inside),
        cmocka_unit_test(seed_and_epoch_change_the_order),
        cmocka_unit_test(shuffles_are_even),
        cmocka_unit_test(hash_is_xxh3),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
