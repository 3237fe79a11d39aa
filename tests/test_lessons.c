/* test_lessons.c - what the training part taught: written and read it comes to the same, it holds
 * for other data, and text that is none of it is refused. */
#include <stdlib.h>
#include <string.h>
#include "help_idx.h"

/* ---- every kind ---- */

static const char *const specs[] = {
    "idx:%s",
    "csv:%s/t.csv,test=0.4,seed=3",
    "text:%s/text,length=3",
    "text:%s/text/train.txt,unit=char,length=1",
    "tokens:%s/tokens,length=3",
    "cifar10:%s/cifar",
    "frames:%s/speech,window=3",
    "synth:count=8,test=4,shape=5",
    NULL,
};

static void write_cifar(void)
{
    static unsigned char record[3 * 3073];

    for (size_t i = 0; i < sizeof record; i++)
        record[i] = (unsigned char)(i % 3073 ? i * 37 % 251 : i / 3073);
    idx_put("cifar/data_batch_1.bin", record, sizeof record);
    idx_put("cifar/test_batch.bin", record, 3073);
}

static void write_speech(const char *word)
{
    static const uint32_t frames[] = {6, 2}, utts[] = {2, 2}, span[] = {0, 4, 4, 2},
                          label[] = {0, 1, 2, 2, 1, 0};
    uint32_t bits[12];
    char name[64];

    for (int i = 0; i < 12; i++) {
        float x = (float)(i * i) - 3;
        memcpy(&bits[i], &x, sizeof x);
    }
    snprintf(name, sizeof name, "speech/%s-frames-idx", word);
    idx_save(name, 13, 2, frames, bits, 12);
    snprintf(name, sizeof name, "speech/%s-frame-labels-idx", word);
    idx_save(name, 8, 1, frames, label, 6);
    snprintf(name, sizeof name, "speech/%s-utts-idx", word);
    idx_save(name, 12, 2, utts, span, 4);
}

static void write_all(void)
{
    static const uint16_t token[] = {1, 5, 2, 1, 0, 3, 3, 7, 2, 1, 4, 4};

    idx_good();
    idx_shell("cd %s && mkdir -p text tokens cifar speech");
    idx_text("t.csv", "1,2,3\n2,5,1\n9,1,4\n4,4,4\n0,-3,2\n");
    idx_put("text/train.txt", "b a c \xff \"x\\\" a\n\xc3\xa9 b\n", 21);
    idx_text("text/test.txt", "c b zzz a\n");
    idx_put("tokens/train.bin", token, sizeof token);
    idx_put("tokens/val.bin", token, sizeof token / 2);
    write_cifar();
    write_speech("train");
    write_speech("test");
}

static weir_err open_with(const char *format, const char *lessons, bool test_only,
                          weir_data_use *use)
{
    char spec[300];
    weir_data_need need = {.batch = 1, .lessons = lessons, .test_only = test_only};

    snprintf(spec, sizeof spec, format, idx_dir);
    return weir_data_open(spec, &need, idx_arena, use);
}

static void same_samples(const weir_data_use *a, const weir_data_use *b, weir_data_part part)
{
    size_t width = 1;
    weir_data_batch x, y;

    assert_int_equal(a->facts.count[part], b->facts.count[part]);
    assert_int_equal(a->facts.classes, b->facts.classes);
    assert_true(a->facts.value_scale == b->facts.value_scale);
    x = idx_get(a, part, 0, 1, 0);
    y = idx_get(b, part, 0, 1, 0);
    for (int i = 0; i < a->facts.dims; i++)
        width *= (size_t)a->facts.dim[i];
    if (a->facts.tokens_in)
        assert_memory_equal(x.token, y.token, width * 4);
    else
        assert_memory_equal(x.x, y.x, width * 4);
    if (a->facts.target == WEIR_TARGET_VALUES)
        assert_true(x.value[0] == y.value[0]);
    else
        assert_int_equal(x.label[0], y.label[0]);
}

/* The same data by what they taught: the same samples, and the same lessons again; and the test
 * part is there without the training part. */
static void lessons_come_back(void **unused)
{
    (void)unused;
    write_all();
    for (const char *const *spec = specs; *spec; spec++) {
        weir_data_use use, again, test;
        const char *first, *second;
        assert_int_equal(open_with(*spec, NULL, false, &use), WEIR_OK);
        assert_int_equal(weir_data_lessons(&use, idx_arena, &first), WEIR_OK);
        assert_int_equal(open_with(*spec, first, false, &again), WEIR_OK);
        assert_int_equal(weir_data_lessons(&again, idx_arena, &second), WEIR_OK);
        assert_string_equal(first, second);
        assert_int_equal(open_with(*spec, first, true, &test), WEIR_OK);
        for (int part = 0; part < WEIR_DATA_PARTS; part++) {
            same_samples(&use, &again, (weir_data_part)part);
            assert_int_equal(use.facts.count[part], again.trained[part].count);
            assert_int_equal(weir_data_hash(&use, (weir_data_part)part), again.trained[part].hash);
        }
        same_samples(&use, &test, WEIR_DATA_TEST);
        weir_data_close(&use);
        weir_data_close(&again);
        weir_data_close(&test);
    }
}

static void every_kind_is_listed_above(void **unused)
{
    (void)unused;
    for (weir_plugs p = weir_datas; *p; p++) {
        const char *const *spec = specs;
        while (*spec && strncmp(*spec, (*p)->name, strlen((*p)->name)))
            spec++;
        assert_non_null(*spec);
    }
}

/* ---- other data ---- */

static const char *learnt_from(const char *format)
{
    weir_data_use use;
    const char *text;

    assert_int_equal(open_with(format, NULL, false, &use), WEIR_OK);
    assert_int_equal(weir_data_lessons(&use, idx_arena, &text), WEIR_OK);
    weir_data_close(&use);
    return text;
}

static void another_table_is_standardised_by_the_first(void **unused)
{
    const char *lessons;
    double mean[3], deviation[3];
    weir_data_use use;
    (void)unused;

    idx_text("a.csv", "0,10,5\n2,10,7\n0,10,5\n2,10,7\n0,10,5\n2,10,7\n1,10,6\n1,10,6\n");
    lessons = learnt_from("csv:%s/a.csv,test=0.25");
    const char *at = strstr(lessons, "\"mean\":[");
    assert_int_equal(sscanf(at, "\"mean\":[%lf,%lf,%lf],\"deviation\":[%lf,%lf,%lf]", &mean[0],
                            &mean[1], &mean[2], &deviation[0], &deviation[1], &deviation[2]),
                     6);
    assert_true(mean[1] == 10 && deviation[1] == 1); /* all equal: nothing to divide by */
    idx_text("b.csv", "100,11,-4\n");
    assert_int_equal(open_with("csv:%s/b.csv", lessons, true, &use), WEIR_OK);
    assert_true(use.facts.count[WEIR_DATA_TEST] == 1 && use.facts.count[WEIR_DATA_TRAIN] == 0);
    weir_data_batch b = idx_get(&use, WEIR_DATA_TEST, 0, 1, 0);
    assert_true(b.x[0] == (float)((100 - mean[0]) / deviation[0]) && b.x[1] == 1);
    assert_true(b.value[0] == (float)((-4 - mean[2]) / deviation[2]));
    assert_true(use.facts.value_scale == deviation[2]);
    weir_data_close(&use);
    idx_text("b.csv", "1,2\n");
    assert_int_equal(open_with("csv:%s/b.csv", lessons, true, &use), WEIR_INVALID);
    assert_non_null(strstr(weir_why_text(), "2 columns were found; 3 were expected"));
    idx_text("b.csv", "1,2,3\n"); /* to train on, one row is too few */
    assert_int_equal(open_with("csv:%s/b.csv", lessons, false, &use), WEIR_INVALID);
}

static void other_pictures_must_be_alike(void **unused)
{
    static const uint32_t wide[] = {2, 3, 2}, two[] = {2, 2, 3}, label[] = {9, 1};
    const char *lessons;
    weir_data_use use;
    (void)unused;

    idx_good();
    lessons = learnt_from("idx:%s");
    idx_shell("rm %s/train-*");
    assert_int_equal(open_with("idx:%s", lessons, true, &use), WEIR_OK);
    assert_int_equal(use.facts.classes, 4);
    weir_data_close(&use);
    assert_int_equal(open_with("idx:%s,classes=5", lessons, true, &use), WEIR_MISFIT);
    assert_int_equal(open_with("idx:%s,classes=0", lessons, true, &use), WEIR_OK);
    weir_data_close(&use);
    idx_save("t10k-images-idx3-ubyte", 8, 3, wide, idx_ramp, 12);
    assert_int_equal(open_with("idx:%s", lessons, true, &use), WEIR_INVALID);
    assert_non_null(strstr(weir_why_text(), "samples of 3x2 were found, 2x3 was expected"));
    idx_save("t10k-images-idx3-ubyte", 12, 3, two, idx_ramp, 12);
    assert_int_equal(open_with("idx:%s", lessons, true, &use), WEIR_INVALID);
    assert_non_null(strstr(weir_why_text(), "values of type 0c were found, 08 was expected"));
    idx_save("t10k-images-idx3-ubyte", 8, 3, two, idx_ramp, 12);
    idx_save("t10k-labels-idx1-ubyte", 8, 1, two, label, 2);
    assert_int_equal(open_with("idx:%s", lessons, true, &use), WEIR_INVALID);
    assert_non_null(strstr(weir_why_text(), "0 to 3 was expected"));
}

static void a_vocabulary_stays(void **unused)
{
    const char *lessons;
    weir_data_use use;
    (void)unused;

    idx_text("a.txt", "a b c d a b c d a b c d\n");
    idx_text("b.txt", "x d x c b a\n");
    lessons = learnt_from("text:%s/a.txt,length=1");
    /* none is <unk>: what is unknown is left out */
    assert_int_equal(open_with("text:%s/b.txt,length=4", lessons, true, &use), WEIR_OK);
    assert_true(use.facts.classes == 5 && use.facts.unknown[WEIR_DATA_TEST] == 2 &&
                use.facts.left_out);
    weir_data_batch b = idx_get(&use, WEIR_DATA_TEST, 0, 1, 0);
    assert_true(b.token[0] == 3 && b.token[1] == 2 && b.token[2] == 1 && b.token[3] == 0 &&
                b.label[3] == 4);
    weir_data_close(&use);
    idx_text("a.txt", "a b <unk> d a b d a b d a b d\n");
    lessons = learnt_from("text:%s/a.txt,length=1");
    assert_int_equal(open_with("text:%s/b.txt,length=6", lessons, true, &use), WEIR_OK);
    assert_true(use.facts.unknown[WEIR_DATA_TEST] == 3 && !use.facts.left_out);
    b = idx_get(&use, WEIR_DATA_TEST, 0, 1, 0);
    assert_true(b.token[0] == 2 && b.token[1] == 3 && b.token[3] == 2);
    weir_data_close(&use);
    assert_int_equal(open_with("text:%s/b.txt,unit=char", lessons, true, &use), WEIR_MISFIT);
}

/* ---- what is no lesson ---- */

#define PARTS                                                               \
    "\"training\":{\"samples\":1,\"hash\":\"0123456789abcdef\"},\"test\":{" \
    "\"samples\":1,\"hash\":\"0123456789abcdef\"}"
#define CSV "{\"version\":1,\"kind\":\"csv\"," PARTS
#define CSV_SPLIT CSV ",\"table\":\"0123456789abcdef\",\"test_rows\":1,\"seed\":0"
#define TEXT                                                                         \
    "{\"version\":1,\"kind\":\"text\"," PARTS ",\"unit\":\"word\",\"length\":\"5\"," \
    "\"file\":\"0123456789abcdef\""

static const struct bad {
    const char *spec, *text, *words;
    weir_err code;
} bad[] = {
    {"csv:%s/t.csv", "", "not valid JSON", WEIR_DAMAGED},
    {"csv:%s/t.csv", "{", "not valid JSON", WEIR_DAMAGED},
    {"csv:%s/t.csv", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "nested deeper", WEIR_DAMAGED},
    {"csv:%s/t.csv", "[]", "'version' or 'kind' is missing", WEIR_DAMAGED},
    {"csv:%s/t.csv", "{\"version\":1,\"kind\":2}", "'version' or 'kind'", WEIR_DAMAGED},
    {"csv:%s/t.csv", "{\"version\":2,\"kind\":\"csv\"}", "version 2; 1 was", WEIR_MISFIT},
    {"csv:%s/t.csv", TEXT "}", "data of the kind 'text'", WEIR_MISFIT},
    {"csv:%s/t.csv", "{\"version\":1,\"kind\":\"csv\"}", "'training' is missing", WEIR_DAMAGED},
    {"csv:%s/t.csv", "{\"version\":1,\"kind\":\"csv\",\"training\":7}", "'samples'", WEIR_DAMAGED},
    {"csv:%s/t.csv", CSV "}", "'table' is missing", WEIR_DAMAGED},
    {"csv:%s/t.csv", CSV ",\"table\":\"x123456789abcdef\"}", "16 hexadecimal", WEIR_DAMAGED},
    {"csv:%s/t.csv", CSV_SPLIT "}", "'mean' or 'deviation'", WEIR_DAMAGED},
    {"csv:%s/t.csv", CSV_SPLIT ",\"mean\":[1,2],\"deviation\":[1]}", "as many", WEIR_DAMAGED},
    {"csv:%s/t.csv", CSV_SPLIT ",\"mean\":[],\"deviation\":[]}", "missing", WEIR_DAMAGED},
    {"csv:%s/t.csv", CSV_SPLIT ",\"mean\":[1,2],\"deviation\":[1,0]}", "1 are not", WEIR_DAMAGED},
    {"csv:%s/t.csv", CSV_SPLIT ",\"mean\":[1,2],\"deviation\":[-1,1]}", "0 are not", WEIR_DAMAGED},
    {"csv:%s/t.csv", CSV_SPLIT ",\"mean\":[1e300],\"deviation\":[1]}", "0 are not", WEIR_DAMAGED},
    {"csv:%s/t.csv", CSV_SPLIT ",\"mean\":[\"1\"],\"deviation\":[1]}", "0 are not", WEIR_DAMAGED},
    {"csv:%s/t.csv", CSV_SPLIT ",\"mean\":[1,2],\"deviation\":[1,1]}", "2 were", WEIR_INVALID},
    {"csv:%s/t.csv", CSV_SPLIT ",\"mean\":[0,0,0],\"deviation\":[1,1e-40,1]}", "too far",
     WEIR_INVALID},
    {"text:%s/t.csv", TEXT "}", "'vocabulary' is missing", WEIR_DAMAGED},
    {"text:%s/t.csv", TEXT ",\"vocabulary\":[]}", "holds no words", WEIR_DAMAGED},
    {"text:%s/t.csv", TEXT ",\"vocabulary\":{}}", "holds no words", WEIR_DAMAGED},
    {"text:%s/t.csv", TEXT ",\"vocabulary\":[\"a\",\"b\",\"a\"]}", "words 0 and 2", WEIR_DAMAGED},
    {"text:%s/t.csv", TEXT ",\"vocabulary\":[\"a\",7]}", "neither a text", WEIR_DAMAGED},
    {"text:%s/t.csv", TEXT ",\"vocabulary\":[\"a\",[256]]}", "no byte", WEIR_DAMAGED},
    {"text:%s/t.csv", TEXT ",\"vocabulary\":[\"a\",[97]]}", "words 0 and 1", WEIR_DAMAGED},
    {"text:%s/t.csv",
     "{\"version\":1,\"kind\":\"text\"," PARTS ",\"unit\":\"syllable\",\"length\":\"5\"}",
     "syllable", WEIR_DAMAGED},
    {"text:%s/t.csv",
     "{\"version\":1,\"kind\":\"text\"," PARTS ",\"unit\":\"word\",\"length\":\"-5\"}", "length",
     WEIR_DAMAGED},
};

static void what_is_no_lesson_is_refused(void **unused)
{
    weir_data_use use;
    (void)unused;

    idx_text("t.csv", "1,2,3\n4,5,6\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_err err = open_with(bad[i].spec, bad[i].text, true, &use);
        if (err != bad[i].code || !strstr(weir_why_text(), bad[i].words))
            fail_msg("%s gave %d, '%s'", bad[i].text, err, weir_why_text());
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, idx_setup, idx_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(lessons_come_back),
        CASE(every_kind_is_listed_above),
        CASE(another_table_is_standardised_by_the_first),
        CASE(other_pictures_must_be_alike),
        CASE(a_vocabulary_stays),
        CASE(what_is_no_lesson_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
