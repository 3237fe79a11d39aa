/* test_text.c - text and tokens: streams and windows, vocabularies, and files that are none; the
 * plan's laws for streams. */
#include "data/loader.h"
#include "data/vocab.h"
#include <stdlib.h>
#include <string.h>
#include "help_idx.h"

/* ---- streams: tokens that are their own place ---- */

/* A headerless file of 0, 1, 2, ... */
static void write_ramp(const char *name, int from, int n)
{
    static uint16_t token[65536];

    for (int i = 0; i < n; i++)
        token[i] = (uint16_t)(from + i);
    idx_put(name, token, (size_t)n * 2);
}

static uint64_t windows(const weir_data_use *use, int part)
{
    return use->facts.count[part] / (uint64_t)use->facts.streams[part];
}

/* Windows of a stream follow one another, targets are inputs moved on by one, streams do not
 * overlap. */
static void check_part(const weir_data_use *use, int part, int from, int tokens)
{
    int length = (int)use->facts.dim[0], each = tokens / (int)use->facts.streams[part];
    uint64_t per = windows(use, part);

    assert_int_equal(per, (each - 1) / length);
    for (uint64_t i = 0; i < use->facts.count[part]; i++) {
        weir_data_batch b = idx_get(use, (weir_data_part)part, i, 1, 0);
        int first = from + (int)(i / per) * each + (int)(i % per) * length;
        for (int k = 0; k < length; k++) {
            assert_int_equal(b.token[k], first + k);
            assert_int_equal(b.label[k], first + k + 1);
        }
        assert_true(b.label[length - 1] < from + (int)(i / per + 1) * each);
    }
}

static void streams_are_contiguous_and_apart(void **unused)
{
    static const int64_t batches[] = {0, 1, 2, 7, 20};
    weir_data_use use;
    (void)unused;

    write_ramp("train_0.bin", 0, 600);
    write_ramp("train_1.bin", 600, 401);
    write_ramp("val.bin", 1001, 97);
    for (int i = 0; i < 5; i++) {
        int64_t wanted = batches[i] ? batches[i] : 1;
        assert_int_equal(idx_open("tokens:%s,length=10", batches[i], &use), WEIR_OK);
        assert_true(use.facts.tokens_in && use.facts.target == WEIR_TARGET_TOKENS &&
                    use.facts.dims == 1 && use.facts.dim[0] == 10);
        assert_true(use.facts.classes == 1098 && use.facts.value_scale == 1);
        assert_int_equal(use.facts.streams[WEIR_DATA_TRAIN], wanted);
        /* 97 tokens give 8 streams of 11 at most */
        assert_int_equal(use.facts.streams[WEIR_DATA_TEST], wanted < 8 ? wanted : 8);
        check_part(&use, WEIR_DATA_TRAIN, 0, 1001);
        check_part(&use, WEIR_DATA_TEST, 1001, 97);
        weir_data_close(&use);
    }
    /* 1001 / 91 = 11: one window each */
    assert_int_equal(idx_open("tokens:%s,length=10", 91, &use), WEIR_OK);
    assert_int_equal(use.facts.count[WEIR_DATA_TRAIN], 91);
    weir_data_close(&use);
    assert_int_equal(idx_open("tokens:%s,length=10", 92, &use), WEIR_MISFIT);
    assert_non_null(strstr(weir_why_text(), "92 streams of length=10 and a token more need 1012"));
}

/* Over an epoch every window of every stream once; step k is window k of all streams, stream i at
 * place i; epochs repeat. */
static void the_plan_reads_streams_in_order(void **unused)
{
    static const int sizes[] = {1, 2, 3, 5}, micros[] = {1, 2};
    (void)unused;

    for (int i = 0; i < 8; i++) {
        weir_sample_plan p = {.seed = 3,
                              .count = 4 * 9,
                              .batch = 4,
                              .streams = 4,
                              .size = sizes[i / 2],
                              .micro = micros[i % 2]};
        int met[4 * 9] = {0};
        assert_int_equal(weir_sample_plan_check(&p), WEIR_OK);
        assert_int_equal(weir_sample_plan_epoch_steps(&p), 9);
        for (uint64_t step = 0; step < 18; step++) {
            weir_cursor at = weir_plan_at(&p, step);
            assert_int_equal(weir_sample_plan_samples(&p, at), 4);
            for (p.rank = 0; p.rank < p.size; p.rank++)
                for (int m = 0; m < p.micro; m++) {
                    uint64_t first;
                    int n;
                    weir_sample_plan_slice(&p, at, m, &first, &n);
                    for (int k = 0; k < n; k++) {
                        uint64_t index = weir_sample_plan_index(&p, at, first + (uint64_t)k);
                        assert_int_equal(index, (first + (uint64_t)k) * 9 + step % 9);
                        met[index]++;
                    }
                }
            p.rank = 0;
        }
        for (int k = 0; k < 4 * 9; k++)
            assert_int_equal(met[k], 2);
    }
    assert_int_not_equal(weir_sample_plan_check(&(weir_sample_plan){
                             .count = 36, .batch = 5, .streams = 4, .size = 1, .micro = 1}),
                         WEIR_OK);
    assert_int_not_equal(weir_sample_plan_check(&(weir_sample_plan){
                             .count = 37, .batch = 4, .streams = 4, .size = 1, .micro = 1}),
                         WEIR_OK);
}

/* The loader hands every worker its streams, each going on where it was. */
static void the_loader_follows_the_streams(void **unused)
{
    weir_data_use use;
    (void)unused;

    write_ramp("train.bin", 0, 1001);
    write_ramp("val.bin", 0, 100);
    assert_int_equal(idx_open("tokens:%s,length=10", 5, &use), WEIR_OK);
    weir_sample_plan p = {.seed = 3,
                          .count = use.facts.count[WEIR_DATA_TRAIN],
                          .batch = 5,
                          .streams = 5,
                          .size = 2,
                          .micro = 1};
    for (p.rank = 0; p.rank < 2; p.rank++) {
        const weir_data_batch *b;
        weir_loader *l;
        int32_t next[3] = {0};
        weir_loader_from from = {.at = weir_plan_at(&p, 0)};
        assert_int_equal(weir_loader_open(weir_rt_threads(), &use, &p, from, 2, &l), WEIR_OK);
        for (uint64_t step = 0; step < 2 * weir_sample_plan_epoch_steps(&p); step++) {
            assert_int_equal(weir_loader_next(l, &b), WEIR_OK);
            assert_int_equal(b->n, p.rank ? 2 : 3);
            for (int i = 0; i < b->n; i++) {
                int32_t begin = (p.rank * 3 + i) * 200;
                assert_int_equal(b->token[i * 10],
                                 step % weir_sample_plan_epoch_steps(&p) ? next[i] : begin);
                next[i] = b->label[i * 10 + 9];
            }
        }
        weir_loader_close(l);
    }
    weir_loader *none = NULL;
    p.streams = p.rank = 0;
    /* a plan that forgot the streams */
    weir_loader_from from = {.at = weir_plan_at(&p, 0)};
    assert_int_equal(weir_loader_open(weir_rt_threads(), &use, &p, from, 2, &none), WEIR_FAILED);
    assert_null(none);
    weir_data_close(&use);
}

/* ---- tokens: the files ---- */

static void write_llmc(const char *name, int magic, int version, int count, int width, size_t cut)
{
    static unsigned char bytes[1024 + 4 * 1000];
    int32_t head[3] = {magic, version, count};

    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, head, sizeof head);
    for (int i = 0; i < 1000; i++) {
        bytes[1024 + i * width] = (unsigned char)(i % 251);
        bytes[1024 + i * width + (width - 1)] = width == 2 ? 1 : 0;
        if (width == 4)
            bytes[1024 + i * 4 + 2] = 1;
    }
    idx_put(name, bytes, 1024 + (size_t)(count * width) - cut);
}

static void token_files_of_every_kind(void **unused)
{
    weir_data_use use;
    (void)unused;

    write_llmc("a.bin", 20240520, 1, 1000, 2, 0);
    assert_int_equal(idx_open("tokens:%s/a.bin,length=8", 2, &use), WEIR_OK);
    assert_int_equal(use.facts.classes, 256 + 251);
    assert_int_equal(use.facts.count[WEIR_DATA_TRAIN], 2 * (449 / 8)); /* 900 of 1000 */
    assert_int_equal(use.facts.count[WEIR_DATA_TEST], 2 * (49 / 8));
    weir_data_batch b = idx_get(&use, WEIR_DATA_TRAIN, 0, 1, 0);
    assert_true(b.token[0] == 256 && b.token[1] == 257 && b.label[7] == 264);
    b = idx_get(&use, WEIR_DATA_TEST, 0, 1, 0);
    assert_int_equal(b.token[0], 256 + 900 % 251);
    weir_data_close(&use);
    write_llmc("a.bin", 20240801, 7, 1000, 4, 0);
    idx_shell("gzip %s/a.bin");
    assert_int_equal(idx_open("tokens:%s/a.bin.gz,length=8,vocab=70000", 2, &use), WEIR_OK);
    assert_int_equal(use.facts.classes, 70000);
    b = idx_get(&use, WEIR_DATA_TRAIN, 0, 1, 0);
    assert_true(b.token[0] == 65536 && b.label[0] == 65537);
    weir_data_close(&use);
}

static void damaged_token_files_are_refused(void **unused)
{
    (void)unused;
    write_llmc("a.bin", 20240520, 2, 1000, 2, 0);
    idx_refused("tokens:%s/a.bin,length=8", WEIR_INVALID, "a.bin",
                "version 2 was found, 1 was expected");
    write_llmc("a.bin", 20240520, 1, 1000, 2, 1);
    idx_refused("tokens:%s/a.bin,length=8", WEIR_INVALID, "a.bin",
                "1999 bytes of tokens were found, its header promises 2000: it is cut short");
    write_llmc("a.bin", 20240520, 1, 999, 2, (size_t)-2);
    idx_refused("tokens:%s/a.bin,length=8", WEIR_INVALID, "a.bin", "too long");
    write_llmc("a.bin", 20240520, 1, 0, 2, 24);
    idx_refused("tokens:%s/a.bin,length=8", WEIR_INVALID, "a.bin", "within its header: 1000 bytes");
    write_llmc("a.bin", 20240520, 1, 0, 2, 0);
    idx_refused("tokens:%s/a.bin,length=8", WEIR_INVALID, "a.bin", "no tokens");
    write_llmc("a.bin", 20240326, 3, 1000, 2, 0);
    idx_refused("tokens:%s/a.bin,length=8", WEIR_INVALID, "a.bin", "it begins with 20240326");
    idx_text("a.bin", "abc");
    idx_refused("tokens:%s/a.bin", WEIR_INVALID, "a.bin", "3 bytes were found");
    idx_text("a.bin", "");
    idx_refused("tokens:%s/a.bin", WEIR_INVALID, "a.bin", "0 bytes were found");
    write_ramp("a.bin", 0, 100);
    idx_refused("tokens:%s/a.bin,length=8,vocab=99", WEIR_INVALID, "a.bin",
                "token 99 (from 0) is 99; 0 to 98 was expected");
    idx_refused("tokens:%s/a.bin", WEIR_MISFIT, "a.bin", "90 tokens are too few");
    idx_refused("tokens:%s", WEIR_INVALID, "", "there is no *train*.bin");
    write_ramp("x_train_0.bin", 0, 100);
    idx_refused("tokens:%s", WEIR_INVALID, "", "there is no *val*.bin");
    write_llmc("x_train_1.bin", 20240801, 7, 1000, 4, 0);
    idx_refused("tokens:%s", WEIR_INVALID, "x_train_1.bin",
                "tokens of 4 bytes were found, 2 was expected");
    idx_refused("tokens", WEIR_USAGE, "tokens:FILE", "a file or a directory");
}

/* ---- text ---- */

static void check_tokens(const weir_data_use *use, weir_data_part part, const char *expected)
{
    weir_data_batch b = idx_get(use, part, 0, 1, 0);
    char text[400] = "";
    size_t n = 0;

    for (int64_t k = 0; k < use->facts.dim[0]; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%d ", b.token[k]);
    snprintf(text + n, sizeof text - n, "%d", b.label[use->facts.dim[0] - 1]);
    assert_string_equal(text, expected);
}

static void words_are_numbered_as_they_come(void **unused)
{
    weir_data_use use;
    (void)unused;

    idx_text("my.train.txt", " the cat\tsat \n on the mat\r\n\nthe <unk> end ");
    idx_text("my.valid.txt", "the dog sat on sat\n");
    idx_text("my.test.txt", "mat on dog the cat\n");
    assert_int_equal(idx_open("text:%s,length=5", 1, &use), WEIR_OK);
    assert_int_equal(use.facts.classes, 8); /* the cat sat <eos> on mat <unk> end */
    check_tokens(&use, WEIR_DATA_TEST, "5 4 6 0 1 3");
    weir_data_close(&use);
    assert_int_equal(idx_open("text:%s,length=12", 1, &use), WEIR_MISFIT); /* test has 6 tokens */
    idx_shell("rm %s/my.test.txt");
    assert_int_equal(idx_open("text:%s,length=5", 1, &use), WEIR_OK);
    check_tokens(&use, WEIR_DATA_TEST, "0 6 2 4 2 3");
    check_tokens(&use, WEIR_DATA_TRAIN, "0 1 2 3 4 0");
    weir_data_close(&use);
    idx_text("my.test.txt", "the cat sat on the mat <eos> the end\n");
    assert_int_equal(idx_open("text:%s,length=9", 1, &use), WEIR_OK);
    check_tokens(&use, WEIR_DATA_TRAIN, "0 1 2 3 4 0 5 3 3 0");
    weir_data_close(&use);
}

static void which_files_are_meant(void **unused)
{
    static const char train[] = "a b c d\n", test[] = "d c b a\n";
    weir_data_use use;
    (void)unused;

    idx_text("ptb.train.txt", train);
    idx_text("ptb.test.txt", test);
    idx_text("ptb.train.txt.xz", "packed"); /* other endings are ignored */
    idx_text("train.py", "packed");
    idx_text("README.md", "train and test");
    idx_text(".train.txt.swp", "hidden");
    idx_shell("mkdir %s/train; gzip -k %s/ptb.train.txt");
    assert_int_equal(idx_open("text:%s,length=4", 1, &use), WEIR_OK);
    check_tokens(&use, WEIR_DATA_TEST, "3 2 1 0 4");
    weir_data_close(&use);
    idx_shell("cd %s && rm ptb.train.txt && mv ptb.test.txt test && gzip test");
    assert_int_equal(idx_open("text:%s,length=4", 1, &use), WEIR_OK);
    check_tokens(&use, WEIR_DATA_TEST, "3 2 1 0 4");
    weir_data_close(&use);
    idx_text("latest.train", train);
    idx_refused("text:%s,length=4", WEIR_INVALID, "latest.train and ptb.train.txt.gz",
                "one of them was expected");
    idx_shell("rm %s/latest.train %s/test.gz");
    idx_refused("text:%s,length=4", WEIR_INVALID, "", "there is no *test* or *valid*");
    idx_shell("rm %s/ptb.train.txt.gz");
    idx_refused("text:%s,length=4", WEIR_INVALID, "", "there is no *train*");
    idx_refused("text", WEIR_USAGE, "text:DIR", "a directory or a file");
    idx_refused("text:%s,unit=syllable", WEIR_USAGE, "unit", "syllable");
}

/* What training has not met is <unk>: the one it has, or one behind all others that the test part
 * calls for; the rest keep their numbers. */
static void unknown_units_become_unk(void **unused)
{
    weir_data_use use;
    (void)unused;

    idx_text("train.txt", "a b c d\n");
    idx_text("valid.txt", "x y z\n"); /* not a part where there is a test */
    idx_text("test.txt", "a b c d\n");
    assert_int_equal(idx_open("text:%s,length=4", 1, &use), WEIR_OK);
    assert_true(use.facts.classes == 5 && use.facts.unknown[WEIR_DATA_TEST] == 0);
    weir_data_close(&use);
    idx_text("train.txt", "a b c d\na\n");
    idx_text("test.txt", "a x\nd y\n");
    assert_int_equal(idx_open("text:%s,length=5", 1, &use), WEIR_OK);
    assert_true(use.facts.classes == 6 && use.facts.unknown[WEIR_DATA_TEST] == 2);
    assert_int_equal(use.facts.unknown[WEIR_DATA_TRAIN], 0);
    check_tokens(&use, WEIR_DATA_TEST, "0 5 4 3 5 4");
    weir_data_close(&use);
    idx_text("test.txt", "a\nb \xC3\xA9\xFF\n");
    assert_int_equal(idx_open("text:%s,unit=char,length=6", 1, &use), WEIR_OK);
    assert_true(use.facts.classes == 7 && use.facts.unknown[WEIR_DATA_TEST] == 2);
    check_tokens(&use, WEIR_DATA_TEST, "0 5 2 1 6 6 5"); /* a, blank, b, c, d, end, <unk> */
    weir_data_close(&use);
    idx_text("train.txt", "a <unk> c d\n");
    idx_text("test.txt", "x a y c\n");
    assert_int_equal(idx_open("text:%s,length=4", 1, &use), WEIR_OK);
    assert_true(use.facts.classes == 5 && use.facts.unknown[WEIR_DATA_TEST] == 2);
    check_tokens(&use, WEIR_DATA_TEST, "1 0 1 2 4");
    weir_data_close(&use);
}

static void files_without_text_are_refused(void **unused)
{
    (void)unused;
    idx_text("train.txt", "a b c d\n");
    idx_text("test.txt", " \t ");
    idx_refused("text:%s,length=4", WEIR_INVALID, "test.txt", "there is no text in it");
    idx_text("train.txt", "");
    idx_refused("text:%s,length=4", WEIR_INVALID, "train.txt", "there is no text in it");
    idx_refused("text:%s/nowhere", WEIR_INVALID, "nowhere", "cannot be read");
}

/* 40 characters: 36 for training. */
static void characters_and_a_lone_file(void **unused)
{
    weir_data_use use;
    (void)unused;

    idx_text("input.txt", "ab\n\xC3\xA9"
                          "ab\n\xC3\xA9"
                          "ab\n\xC3\xA9"
                          "ab\n\xC3\xA9"
                          "ab\n\xC3\xA9"
                          "ab\n\xC3\xA9"
                          "ab\n\xC3\xA9"
                          "ab\n\xC3\xA9"
                          "ab\n\xC3\xA9"
                          "\xC3\xA9\nba");
    assert_int_equal(idx_open("text:%s/input.txt,unit=char,length=3", 1, &use), WEIR_OK);
    assert_int_equal(use.facts.classes, 4);
    assert_int_equal(use.facts.count[WEIR_DATA_TRAIN], 35 / 3);
    check_tokens(&use, WEIR_DATA_TRAIN, "0 1 2 3");
    check_tokens(&use, WEIR_DATA_TEST, "3 2 1 0");
    weir_data_close(&use);
    /* 19 words and the end: 18 and 2 */
    idx_text("words.txt", "a b a b a b a b a b a b a b a b a b b");
    assert_int_equal(idx_open("text:%s/words.txt,length=1", 1, &use), WEIR_OK);
    assert_int_equal(use.facts.classes, 3);
    check_tokens(&use, WEIR_DATA_TEST, "1 2");
    weir_data_close(&use);
}

/* ---- units and vocabularies by themselves ---- */

static void expect_units(const char *text, size_t n, weir_text_unit kind, const char *expected)
{
    weir_reader r = weir_reader_at("x", text, n, kind);
    char found[200] = "";
    uint64_t units = weir_reader_count(r);

    while (weir_reader_next(&r)) {
        snprintf(found + strlen(found), sizeof found - strlen(found), "%llu:%.*s|",
                 (unsigned long long)r.line, (int)r.n, r.unit);
        units--;
    }
    assert_string_equal(found, expected);
    assert_int_equal(units, 0);
}

static void units_have_lines(void **unused)
{
    (void)unused;
    expect_units("", 0, WEIR_TEXT_WORD, "");
    expect_units("a", 1, WEIR_TEXT_WORD, "1:a|1:<eos>|");
    expect_units("a\n", 2, WEIR_TEXT_WORD, "1:a|1:<eos>|");
    expect_units("a b\n\nc", 6, WEIR_TEXT_WORD, "1:a|1:b|1:<eos>|2:<eos>|3:c|3:<eos>|");
    expect_units("\n\n", 2, WEIR_TEXT_WORD, "1:<eos>|2:<eos>|");
    expect_units("a \n ", 4, WEIR_TEXT_WORD, "1:a|1:<eos>|");
    expect_units("a\nb", 3, WEIR_TEXT_CHAR, "1:a|1:\n|2:b|");
    expect_units("\xE2\x82\xAC\xF0\x9F\x98\x80\xC3", 8, WEIR_TEXT_CHAR,
                 "1:\xE2\x82\xAC|1:\xF0\x9F\x98\x80|1:\xC3|");
    expect_units("\xFF\x80"
                 "a\xE2\x82"
                 "b",
                 6, WEIR_TEXT_CHAR, "1:\xFF|1:\x80|1:a|1:\xE2|1:\x82|1:b|");
}

static void large_vocabularies_keep_their_numbers(void **unused)
{
    enum { MANY = 20000 };
    static char text[MANY][8];
    weir_vocab w = {0};
    uint32_t number;
    (void)unused;

    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MANY; i++) {
            int n = snprintf(text[i], sizeof text[i], "w%d", i * 7919 % 100003);
            assert_int_equal(weir_vocab_add(&w, text[i], (size_t)n, &number), WEIR_OK);
            assert_int_equal(number, i);
        }
    assert_int_equal(w.count, MANY);
    assert_true(weir_vocab_find(&w, text[77], strlen(text[77]), &number) && number == 77);
    assert_false(weir_vocab_find(&w, "w", 1, &number));
    weir_vocab_free(&w);
    assert_false(weir_vocab_find(&w, "a", 1, &number)); /* an empty one knows nothing */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, idx_setup, idx_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(streams_are_contiguous_and_apart),
        CASE(the_plan_reads_streams_in_order),
        CASE(the_loader_follows_the_streams),
        CASE(token_files_of_every_kind),
        CASE(damaged_token_files_are_refused),
        CASE(words_are_numbered_as_they_come),
        CASE(which_files_are_meant),
        CASE(unknown_units_become_unk),
        CASE(files_without_text_are_refused),
        CASE(characters_and_a_lone_file),
        CASE(units_have_lines),
        CASE(large_vocabularies_keep_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
