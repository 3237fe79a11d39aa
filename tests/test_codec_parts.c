/* What codecs are made of: packed places and levels, selection, loops that round. */
#include "codec/levels.h"
#include "codec/quant.h"
#include "codec/rice.h"
#include "codec/select.h"
#include "core/rng.h"
#include "core/vec.h"
#include "help_codec.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

/* It fits where it just fits, nowhere else, and nothing is written behind it. */
static void check_room(const uint32_t *word, size_t words, int b, const unsigned char *want,
                       size_t len)
{
    unsigned char *tight = malloc(len + 1);

    tight[len] = 0xa5;
    assert_int_equal(weir_rice_write(word, words, b, tight, len), len);
    assert_memory_equal(tight, want, len);
    assert_int_equal(weir_rice_write(word, words, b, tight, len - 1), 0);
    assert_int_equal(tight[len], 0xa5);
    free(tight);
}

static bool read_all(const unsigned char *bytes, size_t len, size_t words, int b, size_t n,
                     uint32_t *word)
{
    weir_rice reader = weir_rice_begin(bytes, len, words, b, n);

    for (size_t k = 0; k < words; k += WEIR_RICE_GROUP)
        if (!weir_rice_read(&reader, word + k))
            return false;
    return true;
}

/* Gaps of every size with every parameter: long runs of zeros, words that no single look shows. */
static void rice_of_any_gap(void **state)
{
    uint32_t word[60], back[60];
    unsigned char *bytes = calloc(1 << 20, 1);

    (void)state;
    for (int b = 0; b <= 30; b++) {
        size_t words = 0, len;
        uint32_t place = 0;
        for (int e = 0; e <= b + 16 && e <= 28; e++, words += 2) {
            word[words] = (place += (1u << e) - 1) << 1 | (e & 1);
            word[words + 1] = word[words]; /* the same again */
        }
        len = weir_rice_write(word, words, b, bytes, 1 << 20);
        assert_true(len > 0);
        check_room(word, words, b, bytes, len);
        assert_true(read_all(bytes, len, words, b, (size_t)place + 1, back));
        assert_memory_equal(word, back, 4 * words);
        assert_false(read_all(bytes, len - 1, words, b, (size_t)place + 1, back));
    }
    free(bytes);
}

/* As docs/WIRE.md has it: places 2, 7 (minus), 7, 40 with b = 2. Gaps 2, 5, 0, 33; low parts 2 1 0
 * 1 with their signs: 010 101 000 001 from the lowest bit on (each written here from its highest),
 * high parts 1, 01, 1, 000000001. */
static void rice_as_documented(void **state)
{
    static const uint32_t word[] = {2 << 1, 7 << 1 | 1, 7 << 1, 40 << 1};
    static const unsigned char want[] = {0x2a, 0x02, 0x0d, 0x10};
    unsigned char got[8] = {0};

    (void)state;
    assert_int_equal(weir_rice_write(word, 4, 2, got, sizeof got), sizeof want);
    assert_memory_equal(got, want, sizeof want);
}

/* 2^32 and 3 zeros before a one: no high part is cut to 32 bits and taken for 3. */
static void rice_of_too_many_zeros(void **state)
{
    enum { BYTES = (1 << 29) + 16 };
    unsigned char *bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint32_t word[WEIR_RICE_GROUP];

    (void)state;
    assert_true(bytes != MAP_FAILED);
    bytes[1 + (1 << 29)] = 1 << 3; /* behind the one byte of low parts */
    weir_rice reader = weir_rice_begin(bytes, BYTES, 1, 0, 1000);
    assert_false(weir_rice_read(&reader, word));
    munmap(bytes, BYTES);
}

/* Bit k of level i is bit bits * i + k of the bytes; those behind are 0. */
static void levels(void **state)
{
    int8_t level[100], back[100];
    unsigned char bytes[104];

    (void)state;
    for (int bits = 2; bits <= 8; bits++)
        for (size_t n = 0; n <= 100; n++) {
            size_t all = weir_levels_bytes(n, bits);
            weir_rng r = weir_rng_at(n, WEIR_RNG_TEST, 2, 0);
            for (size_t i = 0; i < n; i++)
                level[i] = (int8_t)((int)(weir_rng_u32(&r) % (1u << bits)) - (1 << (bits - 1)));
            memset(bytes, 0xa5, sizeof bytes);
            weir_levels_pack(level, n, bits, bytes);
            for (size_t k = 0; k < 8 * all; k++)
                assert_int_equal(bytes[k / 8] >> k % 8 & 1,
                                 k / (size_t)bits < n
                                     ? level[k / (size_t)bits] >> k % (size_t)bits & 1
                                     : 0);
            assert_int_equal(bytes[all], 0xa5);
            weir_levels_unpack(bytes, n, bits, back);
            assert_memory_equal(level, back, n);
        }
}

static void rice(void **state)
{
    enum { N = 100000, MOST_WORDS = 20000 };
    uint32_t *word = calloc(MOST_WORDS, 4), *back = calloc(MOST_WORDS, 4);
    unsigned char *bytes = calloc(MOST_WORDS, 8);

    (void)state;
    for (int round = 0; round < 60; round++) {
        weir_rng r = weir_rng_at((uint64_t)round, WEIR_RNG_TEST, 1, 0);
        size_t words = 0, len;
        double density = pow(10, -4 + 0.05 * round);
        for (uint32_t i = 0; i < N && words < MOST_WORDS; i++)
            if (i == 0 || i == N - 1 || (double)weir_rng_unit(&r) < density)
                word[words++] = i << 1 | (weir_rng_u32(&r) & 1);
        int b = weir_rice_fit(N, words);
        len = weir_rice_write(word, words, b, bytes, 8 * MOST_WORDS);
        assert_true(len > 0);
        check_room(word, words, b, bytes, len);
        assert_true(read_all(bytes, len, words, b, N, back));
        assert_memory_equal(word, back, 4 * words);
        assert_false(read_all(bytes, len, words, b, N - 1, back)); /* the last place is beyond */
        double share = (double)words / N,
               entropy = (-share * log2(share) - (1 - share) * log2(1 - share)) / share + 1;
        if (words > 500 && words < MOST_WORDS)
            assert_true(8.0 * (double)len / (double)words < 1.06 * entropy);
    }
    free(word);
    free(back);
    free(bytes);
}

static int falling(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x < y) - (x > y);
}

static void select_kth(void **state)
{
    float x[500], sorted[500];

    (void)state;
    for (int round = 0; round < 300; round++) {
        size_t n = 1 + (size_t)round % 500, k = 1 + (size_t)(round * 7) % n;
        fill(x, n, (kind)(round % KINDS), (uint64_t)round);
        memcpy(sorted, x, n * sizeof *x);
        qsort(sorted, n, sizeof *x, falling);
        float got = weir_select(x, n, k);
        assert_true(got == sorted[k - 1]);
    }
}

/* Every set of loops gives the baseline's bits. */
static void same_bits(void **state)
{
    enum { N = 1003 };
    const weir_quant *base = weir_quant_of("baseline");
    float x[N], y[N], z[N];
    uint16_t h[2][N + 1];
    int8_t q[2][N];
    uint32_t bits[2][N / 32 + 1];

    (void)state;
    for (const weir_vec *const *v = weir_vec_all(); *v; v++)
        for (kind k = 0; k < KINDS; k++) {
            const weir_quant *w = weir_quant_of((*v)->isa);
            double s[4];
            fill(x, N, k, 1);
            base->to_fp16(h[0], x, 8, N, false), w->to_fp16(h[1], x, 8, N, k % 2);
            assert_memory_equal(h[0], h[1], 2 * N);
            memcpy(y, x, sizeof x), memcpy(z, x, sizeof x);
            base->add_fp16(y, h[0], 0.25f, N), w->add_fp16(z, h[0], 0.25f, N);
            assert_memory_equal(y, z, sizeof y);
            base->to_bf16(h[0], x, N), w->to_bf16(h[1], x, N);
            assert_memory_equal(h[0], h[1], 2 * N);
            base->add_bf16(y, h[0], 2, N), w->add_bf16(z, h[0], 2, N);
            assert_memory_equal(y, z, sizeof y);
            base->to_int8(q[0], x, 30, N), w->to_int8(q[1], x, 30, N);
            assert_memory_equal(q[0], q[1], N);
            base->add_int8(y, q[0], 2, N), w->add_int8(z, q[0], 2, N);
            assert_memory_equal(y, z, sizeof y);
            assert_int_equal(base->to_bits(bits[0], x, N, &s[0], &s[1]),
                             w->to_bits(bits[1], x, N, &s[2], &s[3]));
            assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
            assert_true(s[0] == s[2] && s[1] == s[3]);
            base->add_bits(y, bits[0], -1, 2, N), w->add_bits(z, bits[0], -1, 2, N);
            assert_memory_equal(y, z, sizeof y);
            const weir_quant_draw d = {.factor = 50, .most = 100, .key = 5, .at = 77};
            base->draw(q[0], x, N, &d), w->draw(q[1], x, N, &d);
            assert_memory_equal(q[0], q[1], N);
            assert_true(base->dot(x, y, N) == w->dot(x, y, N));
        }
}

/* Any bytes are some words; nothing is read behind those promised. */
static void same_words(void **state)
{
    enum { N = 64 };
    uint32_t high[N], word[2][N];

    (void)state;
    for (const weir_vec *const *v = weir_vec_all(); *v; v++)
        for (int b = 0; b <= WEIR_RICE_LOWS_BITS; b++) {
            weir_rng r = weir_rng_at((uint64_t)b, WEIR_RNG_TEST, 3, 0);
            size_t len = (size_t)N / 8 * (size_t)(b + 1) + WEIR_RICE_LOWS_MORE;
            unsigned char *low = malloc(len);
            weir_rice_lows at = weir_rice_lows_of(b);
            for (size_t i = 0; i < len; i++)
                low[i] = (unsigned char)weir_rng_u32(&r);
            for (size_t i = 0; i < N; i++)
                high[i] = weir_rng_u32(&r) >> 3 >> b;
            memset(word, 0xa5, sizeof word);
            for (size_t k = 0; k < N; k += 8) {
                const unsigned char *from = low + k / 8 * (size_t)(b + 1);
                assert_int_equal(
                    weir_quant_of("baseline")->unrice(word[0] + k, high + k, from, &at, 77),
                    weir_quant_of((*v)->isa)->unrice(word[1] + k, high + k, from, &at, 77));
            }
            assert_memory_equal(word[0], word[1], sizeof word[0]);
            free(low);
        }
}

/* All 65,536 of them. */
static void halves(void **state)
{
    const weir_quant *base = weir_quant_of("baseline");

    (void)state;
    for (unsigned k = 0; k < 65536; k++) {
        uint16_t h = (uint16_t)k, back;
        float x = 0;
        base->add_fp16(&x, &h, 1, 1);
        if (isnan(x))
            continue;
        base->to_fp16(&back, &x, 1, 1, false);
        assert_int_equal(back, h == 0x8000 ? 0 : h); /* 0 + -0 is 0 */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rice),
        cmocka_unit_test(rice_of_any_gap),
        cmocka_unit_test(rice_as_documented),
        cmocka_unit_test(rice_of_too_many_zeros),
        cmocka_unit_test(levels),
        cmocka_unit_test(select_kth),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(same_words),
        cmocka_unit_test(halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
