/* Messages of codecs: as docs/WIRE.md has them, read by another instance, refused when damaged. */
#include "codec/message.h"
#include "help_codec.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void check_fresh(const char *spec, kind k, bucket_shape of)
{
    coder_rig *r = coder_open(spec, of.views, of.shape);
    float *again = calloc(r->bucket.n + 1, sizeof *again);

    for (int step = 0; step < 3; step++) {
        fill(r->grad, r->bucket.n, k, (uint64_t)step);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        memset(again, 0, r->bucket.n * sizeof *again);
        if (r->codec->absorb) /* it has heard the first round, as all have */
            assert_int_equal(r->codec->absorb(r->fresh,
                                              (weir_when){.step = r->when.step, .epochs = 100},
                                              r->first, r->first_len),
                             WEIR_OK);
        assert_int_equal(r->codec->decode(r->fresh, r->when, r->msg, r->len, again), WEIR_OK);
        assert_memory_equal(again, r->value, r->bucket.n * sizeof *again);
        coder_commit(r);
    }
    free(again);
    coder_close(r);
}

static void fresh_instance(void **state)
{
    (void)state;
    for (const char *const *s = codec_specs; *s; s++) {
        for (kind k = 0; k < KINDS; k++)
            check_fresh(*s, k, usual_bucket);
        for (int f = 0; f < FEW; f++)
            check_fresh(*s, NORMAL, few_elements[f]);
    }
}

/* Refused, and nothing is added. */
static void check_refused(coder_rig *r, const unsigned char *msg, size_t len)
{
    memset(r->value, 0, r->bucket.n * sizeof(float));
    assert_int_equal(r->codec->decode(r->fresh, r->when, msg, len, r->value), WEIR_INVALID);
    for (size_t i = 0; i < r->bucket.n; i++)
        assert_true(r->value[i] == 0);
}

static void flipped_heads(void **state)
{
    (void)state;
    for (const char *const *s = codec_specs; *s; s++) {
        coder_rig *r = coder_open(*s, usual_bucket.views, usual_bucket.shape);
        bool bare = r->codec->combine == WEIR_COMBINE_ADD; /* sums have no head */
        fill(r->grad, r->bucket.n, NORMAL, 1);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        for (int bit = 0; bit < 8 * WEIR_MESSAGE_HEAD && !bare; bit++) {
            r->msg[bit / 8] ^= (unsigned char)(1 << bit % 8);
            check_refused(r, r->msg, r->len);
            r->msg[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        for (size_t cut = 0; cut < r->len; cut += 1 + cut / 3)
            check_refused(r, r->msg, cut);
        for (size_t cut = 0; cut < r->first_len && r->codec->absorb; cut += 1 + cut / 3)
            assert_int_equal(r->codec->absorb(r->fresh, (weir_when){0}, r->first, cut),
                             WEIR_INVALID);
        coder_close(r);
    }
}

/* ---- bodies that make no sense ---- */

enum { GUARD = 256 };
static const float UNTOUCHED = 12345;

/* Takes it or refuses it, and writes nothing outside the bucket. The message has just its own
 * bytes, so that a sanitizer sees who reads beyond them. */
static weir_err decode_guarded(coder_rig *r, const unsigned char *msg, size_t len)
{
    size_t n = r->bucket.n;
    float *acc = calloc(n + 2 * GUARD, sizeof *acc);
    unsigned char *copy = malloc(len);
    weir_err err;

    memcpy(copy, msg, len);
    for (size_t i = 0; i < GUARD; i++)
        acc[i] = acc[n + GUARD + i] = UNTOUCHED;
    err = r->codec->decode(r->fresh, r->when, copy, len, acc + GUARD);
    for (size_t i = 0; i < GUARD; i++)
        assert_true(acc[i] == UNTOUCHED && acc[n + GUARD + i] == UNTOUCHED);
    assert_true(err == WEIR_OK || err == WEIR_INVALID);
    free(acc);
    free(copy);
    return err;
}

/* Every byte behind the head, as it never was. Later ones are much alike: fewer and fewer. */
static void hostile_bodies(void **state)
{
    static const unsigned char with[] = {0x00, 0xff, 0x80, 0x01, 0x7f};

    (void)state;
    for (const char *const *s = codec_specs; *s; s++) {
        coder_rig *r = coder_open(*s, usual_bucket.views, usual_bucket.shape);
        fill(r->grad, r->bucket.n, NORMAL, 1);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        for (size_t at = WEIR_MESSAGE_HEAD; at < r->len && r->codec->combine != WEIR_COMBINE_ADD;
             at += 1 + at / 100) {
            unsigned char was = r->msg[at];
            for (size_t k = 0; k < sizeof with; k++) {
                r->msg[at] = with[k];
                decode_guarded(r, r->msg, r->len);
            }
            r->msg[at] = was;
        }
        assert_int_equal(decode_guarded(r, r->msg, r->len), WEIR_OK);
        coder_close(r);
    }
}

/* The first place of a message of places as they are, the value of one that has one for all, and
 * the length of cells: each wrong by the least that it can be. */
static void places_outside(void **state)
{
    static const size_t one[][2] = {{100, 300}};
    static const struct {
        const char *spec;
        uint8_t how;
    } trial[] = {{"topk:select=exact,rice=no", 0},
                 {"strom:density=0.01,pack=none", 0},
                 {"redsync:rice=no", 0},
                 {"strom:tau=1e-9", 2}};

    (void)state;
    for (size_t k = 0; k < sizeof trial / sizeof *trial; k++) {
        coder_rig *r = coder_open(trial[k].spec, 1, one);
        unsigned char *row = r->msg + WEIR_MESSAGE_HEAD, *body = row + 16;
        uint32_t word, last = 2 * 29999, outside = 2 * 30000, bytes;
        const float bad = NAN;
        fill(r->grad, r->bucket.n, NORMAL, 1);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        assert_int_equal(row[8], trial[k].how);
        memcpy(&word, row, 4);
        if (word) { /* one value for all */
            memcpy(row, &bad, 4);
            assert_int_equal(decode_guarded(r, r->msg, r->len), WEIR_INVALID);
            memcpy(row, &word, 4);
        }
        memcpy(&word, body, 4);
        if (trial[k].how == 0) {
            memcpy(body, &last, 4);
            assert_int_equal(decode_guarded(r, r->msg, r->len), WEIR_OK);
            memcpy(body, &outside, 4);
            assert_int_equal(decode_guarded(r, r->msg, r->len), WEIR_INVALID);
            memcpy(body, &word, 4);
        }
        /* four bytes fewer, which head and row agree on */
        memcpy(&bytes, row + 12, 4);
        bytes -= 4;
        memcpy(row + 12, &bytes, 4);
        weir_message_head(r->msg, r->codec, r->bucket.n, r->len - WEIR_MESSAGE_HEAD - 4);
        assert_int_equal(decode_guarded(r, r->msg, r->len - 4), WEIR_INVALID);
        coder_close(r);
    }
}

/* What docs/WIRE.md says they have. */
static void wire_bytes(void **state)
{
    static const size_t one[][2] = {{100, 300}};
    static const struct {
        const char *spec;
        size_t bytes;
    } row[] = {{"none", 4 * 30000},
               {"half", 16 + 7 * (4 + 8192) + 4 + 2 * (30000 - 7 * 4096)},
               {"half:bf16", 16 + 7 * (4 + 8192) + 4 + 2 * (30000 - 7 * 4096)},
               {"int8", 16 + 117 * 260 + 4 + 48},
               {"onebit", 16 + 100 * (8 + 40)},
               {"sign", 16 + 4 + 3752},
               {"qsgd", 16 + 234 * (4 + 80) + 4 + 32},
               {"qsgd:levels=1", 16 + 234 * (4 + 32) + 4 + 12},
               {"qsgd:levels=100", 16 + 234 * (4 + 128) + 4 + 48},
               {"terngrad", 16 + 4 + 7500},
               {"topk:select=exact,rice=no", 16 + 16 + 300 * 8},
               {"redsync:select=trimmed,rice=no,density=0.01", 16 + 16 + 300 * 4},
               {"redsync:select=trimmed,rice=no,quantise=no", 16 + 16 + 30 * 8},
               {"dgc:select=exact,rice=no", 16 + 16 + 30 * 8},
               {"strom:tau=1e-9", 16 + 16 + 7500},
               {"strom:tau=1e-9,quanta=5", 16 + 16 + 15000},
               {"strom:tau=1e-9,quanta=9", 16 + 16 + 30000},
               {"powersgd", 4 * 2 * 300}};

    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        coder_rig *r = coder_open(row[k].spec, 1, one);
        fill(r->grad, r->bucket.n, NORMAL, 1);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        if (r->len != row[k].bytes)
            fail_msg("%s: %zu bytes, %zu by the formula", row[k].spec, r->len, row[k].bytes);
        if (r->codec->rounds > 1)
            assert_int_equal(r->first_len, 4 * 2 * 100);
        coder_close(r);
    }
}

/* Of several tensors in a bucket: {64, 50}, {300, 7}, {1, 5000}, {1, 1}. */
static void wire_bytes_of_many(void **state)
{
    static const struct {
        const char *spec;
        size_t first, bytes;
    } row[] = {{"none", 0, 4 * 10301},
               {"half", 0, 16 + 3 * 4 + 2 * 10301 + 2},
               {"int8", 0, 16 + 41 * 4 + 10301 + 3},
               {"onebit", 0, 16 + 64 * (8 + 8) + 300 * (8 + 4) + 8 + 628 + 8 + 4},
               {"sign", 0, 16 + 4 + 400 + 4 + 264 + 4 + 628 + 4 + 4},
               {"qsgd", 0, 16 + 80 * (4 + 80) + 4 + 40},
               {"terngrad", 0, 16 + 4 + 800 + 4 + 528 + 4 + 1252 + 4 + 4},
               {"powersgd", 4 * (2 * 64 + 2 * 300 + 5000 + 1), 4 * (2 * 50 + 2 * 7)}};

    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        coder_rig *r = coder_open(row[k].spec, usual_bucket.views, usual_bucket.shape);
        fill(r->grad, r->bucket.n, NORMAL, 1);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        if (r->len != row[k].bytes || (row[k].first && r->first_len != row[k].first))
            fail_msg("%s: %zu and %zu bytes, %zu and %zu by the formula", row[k].spec, r->first_len,
                     r->len, row[k].first, row[k].bytes);
        coder_close(r);
    }
}

/* The bits that the words of a part take by Golomb and Rice, counted from what came out. */
static size_t rice_bytes(const float *x, size_t n, unsigned b)
{
    size_t lows = 0, highs = 0, before = 0;

    for (size_t i = 0; i < n; i++)
        if (x[i] != 0) {
            lows += b + 1;
            highs += ((i - before) >> b) + 1;
            before = i;
        }
    return ((lows + 7) / 8 + (highs + 7) / 8 + 3) / 4 * 4;
}

/* Messages of single elements: rows and parts as docs/WIRE.md has them; how long each is follows
 * from what it says, and what it says from what came out. */
static void wire_bytes_of_places(void **state)
{
    static const char *const sparse[] = {
        "strom",   "strom:pack=none",     "strom:density=0.001", "strom:tau=1e-9",
        "topk",    "topk:select=exact",   "topk:rice=no",        "dgc",
        "redsync", "redsync:quantise=no", "redsync:rice=no"};

    (void)state;
    for (size_t k = 0; k < sizeof sparse / sizeof *sparse; k++) {
        coder_rig *r = coder_open(sparse[k], usual_bucket.views, usual_bucket.shape);
        size_t all = 16 + 4 * 16;
        fill(r->grad, r->bucket.n, NORMAL, 1);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        for (int v = 0; v < 4; v++) {
            struct {
                float value;
                uint32_t words;
                uint8_t how, bits;
                uint16_t valued;
                uint32_t bytes;
            } row;
            const weir_view *w = &r->view[v];
            size_t n = w->rows * w->cols, words = 0, want;
            memcpy(&row, r->msg + 16 + 16 * v, 16);
            for (size_t i = 0; i < n; i++)
                words += r->value[w->at + i] != 0;
            want = row.how == 0   ? 4 * words
                   : row.how == 1 ? rice_bytes(r->value + w->at, n, row.bits)
                                  : (n * row.bits + 31) / 32 * 4;
            want += row.valued ? 4 * words : 0;
            if (row.words != words || row.bytes != want || row.how > 2 ||
                (row.how == 1 && strstr(sparse[k], "=no") && !strstr(sparse[k], "quantise")))
                fail_msg("%s, tensor %d: %u words in %u bytes, %zu in %zu by the formula",
                         sparse[k], v, row.words, row.bytes, words, want);
            all += row.bytes;
        }
        assert_int_equal(r->len, all);
        coder_close(r);
    }
}

/* A value that is not finite is found wherever it stands. */
static void bad_values(void **state)
{
    static const size_t one[][2] = {{500, 600}};
    static const size_t at[] = {0, 7, 8, 1023, 1024, 2047, 2048};
    coder_rig *r = coder_open("topk:select=exact", 1, one);
    uint32_t row[4];

    (void)state;
    fill(r->grad, r->bucket.n, NORMAL, 1);
    assert_int_equal(coder_step(r, true), WEIR_OK);
    memcpy(row, r->msg + 16, sizeof row);
    assert_true(row[1] == 3000);
    for (size_t k = 0; k <= sizeof at / sizeof *at; k++) {
        size_t word = k < sizeof at / sizeof *at ? at[k] : row[1] - 1;
        unsigned char *value = r->msg + r->len - 4 * (row[1] - word), was[4];
        const float bad = k % 2 ? NAN : INFINITY;
        memcpy(was, value, 4);
        memcpy(value, &bad, 4);
        assert_int_equal(r->codec->decode(r->fresh, r->when, r->msg, r->len, r->value),
                         WEIR_INVALID);
        memcpy(value, was, 4);
        assert_int_equal(r->codec->decode(r->fresh, r->when, r->msg, r->len, r->value), WEIR_OK);
    }
    coder_close(r);
}

/* Strom's messages are the shortest of the three forms, in a ramp too. */
static void shortest_form(void **state)
{
    static const size_t one[][2] = {{100, 300}};
    static const struct {
        const char *spec;
        int how;
    } row[] = {{"strom:density=0.25,ramp=0", 1},    {"strom:density=0.1,ramp=0", 1},
               {"strom:density=0.05,ramp=0", 1},    {"strom:density=0.25,ramp=0,pack=none", 2},
               {"strom:density=0.01,pack=none", 0}, {"strom:density=1,ramp=0", 2}};

    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        coder_rig *r = coder_open(row[k].spec, 1, one);
        fill(r->grad, r->bucket.n, NORMAL, 1);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        if (r->msg[16 + 8] != row[k].how || r->len > 16 + 16 + 7500)
            fail_msg("%s: %zu bytes in form %d", row[k].spec, r->len, r->msg[16 + 8]);
        if (row[k].how == 1)
            assert_true(r->len < 16 + 16 + 7000);
        coder_close(r);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_instance),       cmocka_unit_test(flipped_heads),
        cmocka_unit_test(hostile_bodies),       cmocka_unit_test(places_outside),
        cmocka_unit_test(wire_bytes),           cmocka_unit_test(wire_bytes_of_many),
        cmocka_unit_test(wire_bytes_of_places), cmocka_unit_test(bad_values),
        cmocka_unit_test(shortest_form),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
