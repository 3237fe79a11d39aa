/* The rest of core: errors, the log, arenas, JSON, names of state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/arena.h"
#include "core/json.h"
#include "core/log.h"
#include "core/state.h"

static void check_fails(weir_err err, weir_err want, const char *word)
{
    if (err != want || !strstr(weir_why_text(), word))
        fail_msg("code %d, not %d, or no '%s' in: %s", err, want, word, weir_why_text());
}

/* ---- errors ---- */

static weir_err passes_on(int code)
{
    WEIR_TRY(code ? weir_fail((weir_err)code, "code %d", code) : WEIR_OK);
    return WEIR_OK;
}

static void an_error_is_one_sentence_with_its_code(void **state)
{
    (void)state;
    assert_int_equal(passes_on(0), WEIR_OK);
    check_fails(passes_on(WEIR_DISK), WEIR_DISK, "code 14");
    assert_int_equal(weir_fail_in(WEIR_DISK, "rank %d", 3), WEIR_DISK);
    assert_string_equal(weir_why_text(), "rank 3: code 14");
    weir_fail(WEIR_LOST, "again: %s", weir_why_text()); /* the slot is its own argument */
    assert_string_equal(weir_why_text(), "again: rank 3: code 14");
    weir_fail(WEIR_INVALID, "name '%s'", "a\nb\033[31m\177");
    assert_string_equal(weir_why_text(), "name 'a?b?[31m?'");
    check_fails(weir_fail_nomem(77), WEIR_FAILED, "out of memory: 77 bytes were asked for");
    assert_int_equal(weir_fail_nomem(0), WEIR_FAILED); /* whoever asked does not know */
    assert_string_equal(weir_why_text(), "out of memory");
}

static void long_errors_are_cut_not_spilled(void **state)
{
    static char words[5000];

    (void)state;
    memset(words, 'x', sizeof words - 1);
    weir_fail(WEIR_FAILED, "%s", words);
    assert_int_equal(strlen(weir_why_text()), WEIR_WHY_MAX - 1);
    weir_fail_in(WEIR_FAILED, "front");
    assert_int_equal(strlen(weir_why_text()), WEIR_WHY_MAX - 1);
    assert_memory_equal(weir_why_text(), "front: xxx", 10);
    weir_fail(WEIR_FAILED, "why");
    weir_fail_in(WEIR_FAILED, "%s", words);
    /* the cause is not pushed out by what stands before it */
    assert_non_null(strstr(weir_why_text(), "x: why"));
}

static void tasks_have_slots_of_their_own(void **state)
{
    weir_why a = {0}, b = {0};
    weir_why *before = weir_why_use(&a);

    (void)state;
    weir_fail(WEIR_LATE, "a");
    assert_ptr_equal(weir_why_use(&b), &a);
    assert_string_equal(weir_why_text(), "");
    weir_fail(WEIR_STALE, "b");
    weir_why_use(before);
    assert_true(a.code == WEIR_LATE && b.code == WEIR_STALE);
    assert_string_equal(a.text, "a");
    assert_string_equal(b.text, "b");
}

static void codes_have_names_and_exits(void **state)
{
    const int all[] = {0, 1, 2, 10, 11, 12, 13, 14, 15, 16, 17, 18, 100, 101, 102, 103};

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_string_not_equal(weir_err_name((weir_err)all[i]), "unknown");
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(weir_err_name((weir_err)all[i]),
                                    weir_err_name((weir_err)all[k]));
        assert_int_equal(weir_err_exit((weir_err)all[i]), all[i] < 100 ? all[i] : 1);
    }
}

/* ---- log ---- */

static int real_stderr, spool;

enum { LOGGED = 8000 };

static void catch_stderr(void)
{
    char name[] = "/tmp/weir-test-XXXXXX";

    fflush(stderr);
    real_stderr = dup(2);
    spool = mkstemp(name);
    unlink(name);
    dup2(spool, 2);
}

static void release_stderr(char *text, size_t room)
{
    ssize_t n;

    fflush(stderr);
    dup2(real_stderr, 2);
    n = pread(spool, text, room - 1, 0);
    text[n > 0 ? n : 0] = 0;
    close(real_stderr);
    close(spool);
}

static void take_down(void *arg, int level, const char *part, const char *text)
{
    char *all = arg;
    size_t n = strlen(all);

    snprintf(all + n, LOGGED - n, "%d %s: %s\n", level, part, text);
}

/* Nobody listens at first, and nobody afterwards. Who begins to listen does so as WEIR_DEBUG says
 * then. */
static void the_log_obeys_level_and_parts(void **state)
{
    static char text[LOGGED], words[4000];

    (void)state;
    memset(words, 'y', sizeof words - 1);
    setenv("WEIR_DEBUG", "info,net,codec", 1);
    setenv("WEIR_NOBODY", "1", 1);
    catch_stderr();
    weir_log(WEIR_LOG_ERROR, "net", "hidden");
    assert_false(weir_log_on(WEIR_LOG_ERROR, "net"));
    weir_on_log(take_down, text);
    weir_log(WEIR_LOG_INFO, "net", "shown %d", 1);
    weir_log(WEIR_LOG_INFO, "co", "hidden");
    weir_log(WEIR_LOG_INFO, "et", "hidden");
    weir_log(WEIR_LOG_INFO, "coll", "hidden");
    weir_log(WEIR_LOG_TRACE, "net", "hidden");
    weir_log(WEIR_LOG_WARN, "coll", "careful");
    weir_log(WEIR_LOG_ERROR, "coll", "broken");
    weir_log(WEIR_LOG_ERROR, "coll", "%s", words);
    setenv("WEIR_DEBUG", "loud", 1);
    weir_on_log(take_down, text);
    setenv("WEIR_DEBUG", "warn", 1);
    unsetenv("WEIR_NOBODY");
    weir_on_log(take_down, text);
    weir_log(WEIR_LOG_INFO, "net", "hidden");
    assert_true(weir_log_on(WEIR_LOG_WARN, "net") && !weir_log_on(WEIR_LOG_INFO, "net"));
    weir_on_log(NULL, NULL);
    weir_log(WEIR_LOG_ERROR, "net", "hidden");
    release_stderr(words, sizeof words);
    assert_string_equal(words, ""); /* the library prints nothing */
    assert_non_null(strstr(text, "1 env: the variable WEIR_NOBODY is not known"));
    assert_non_null(strstr(text, "\n2 net: shown 1\n1 coll: careful\n0 coll: broken\n0 coll: yyy"));
    assert_non_null(strstr(text, "yyy\n1 env: WEIR_DEBUG=loud"));
    assert_null(strstr(text, "hidden"));
}

/* ---- arena ---- */

static void arenas_give_aligned_zeroed_apart(void **state)
{
    enum { N = 200 };
    weir_arena *a = weir_arena_new();
    unsigned char *got[N];
    size_t size[N];

    (void)state;
    assert_non_null(a);
    for (int i = 0; i < N; i++) {
        size[i] = i % 50 == 49 ? 3u << 20 : i % 20 == 19 ? 100000 : (size_t)i * 13 % 4000;
        got[i] = weir_alloc(a, size[i]);
        assert_non_null(got[i]);
        assert_int_equal((uintptr_t)got[i] % 64, 0);
        for (size_t k = 0; k < size[i]; k++)
            assert_int_equal(got[i][k], 0);
        memset(got[i], i + 1, size[i]);
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < size[i]; k++)
            assert_int_equal(got[i][k], (unsigned char)(i + 1));
    assert_true(weir_arena_bytes(a) >= 4 * (3u << 20));
    assert_string_equal(weir_copy_text(a, "words"), "words");
    weir_arena_free(a);
    weir_arena_free(NULL);
}

static void what_is_beside_another_lies_on_its_page_as_that_does(void **state)
{
    weir_arena *a = weir_arena_new();
    char *other = weir_alloc(a, 8192);

    (void)state;
    for (size_t off = 0; off <= 4096; off += 4) {
        size_t bytes = off % 8 ? 100000 : 5000;
        unsigned char *got = weir_alloc_beside(a, bytes, other + off);
        assert_non_null(got);
        assert_int_equal((uintptr_t)got % 4, 0);
#ifndef __SANITIZE_ADDRESS__ /* there everything is in a block of just its size */
        assert_int_equal(((uintptr_t)got - (uintptr_t)(other + off)) % 4096, 0);
#endif
        assert_int_equal(got[0] | got[bytes - 1], 0);
        memset(got, 1, bytes);
    }
    assert_null(weir_alloc_beside(a, SIZE_MAX - 4000, other));
    weir_arena_free(a);
}

static void impossible_sizes_give_null(void **state)
{
    weir_arena *a = weir_arena_new();
    volatile size_t many = SIZE_MAX / 4 + 2; /* times 4 is 8 */

    (void)state;
    assert_null(weir_alloc(a, SIZE_MAX));
    assert_null(weir_alloc(a, SIZE_MAX - 100));
    assert_null(weir_alloc(a, SIZE_MAX / 2 - 10000));
    assert_null(WEIR_NEW(a, float, many));
    assert_null(WEIR_NEW(a, float, -1));
    assert_non_null(WEIR_NEW(a, float, 10));
    weir_arena_free(a);
}

/* Two notes, the later one first. */
typedef struct wish {
    int *seen, when;
} wish;
static void seen(void *arg)
{
    wish *w = arg;

    w->when = ++*w->seen;
}

static void arenas_call_back_the_latest_first(void **state)
{
    int calls = 0;
    wish early = {&calls, 0}, late = {&calls, 0};
    weir_arena *a = weir_arena_new();

    (void)state;
    assert_non_null(a);
    assert_true(weir_arena_later(a, seen, &early));
    assert_true(weir_arena_later(a, seen, &late));
    assert_int_equal(calls, 0);
    weir_arena_free(a);
    assert_int_equal(late.when, 1);
    assert_int_equal(early.when, 2);
}

/* ---- JSON ---- */

static weir_json *sample(void)
{
    weir_json *j = weir_json_object(), *list = weir_json_array();

    weir_json_put_text(j, "event", "step \"1\"\n");
    weir_json_put_int(j, "a", INT64_MIN);
    weir_json_put_real(j, "real", 0.1f);
    weir_json_put_real(j, "none", NAN);
    weir_json_put_bool(j, "yes", true);
    weir_json_put_text(j, "path", "caf\xc3\xa9");
    weir_json_put_text(j, "bad", "caf\xe9");
    weir_json_add_int(list, 7);
    weir_json_add_int(list, -8);
    weir_json_put(j, "list", list);
    return j;
}

static void json_is_compact_and_in_order(void **state)
{
    weir_json *j = sample();
    char *text = weir_json_text(j);

    (void)state;
    assert_string_equal(
        text,
        "{\"event\":\"step "
        "\\\"1\\\"\\n\",\"a\":-9223372036854775808,\"real\":0.100000001,\"none\":null,\"yes\":true,"
        "\"path\":\"caf\xc3\xa9\",\"bad\":\"caf?\",\"list\":[7,-8]}");
    free(text);
    weir_json_free(j);
    weir_json_free(NULL);
}

static weir_err count_keys(void *arg, const char *key, const weir_json *value)
{
    int *n = arg;

    assert_non_null(value);
    ++*n;
    return strcmp(key, "yes") ? WEIR_OK : weir_fail(WEIR_STALE, "stop");
}

static void json_reads_what_it_wrote(void **state)
{
    weir_json *j = sample(), *k = NULL;
    char *text = weir_json_text(j);
    const char *word;
    int64_t i;
    double x;
    int n = 0;

    (void)state;
    assert_int_equal(weir_json_parse(text, strlen(text), "sample", &k), WEIR_OK);
    assert_true(weir_json_is_object(k));
    assert_true(weir_json_get_text(k, "event", &word) && !strcmp(word, "step \"1\"\n"));
    assert_true(weir_json_get_int(k, "a", &i) && i == INT64_MIN);
    assert_true(weir_json_get_real(k, "real", &x) && (float)x == 0.1f);
    assert_true(weir_json_get_real(k, "a", &x) && x == -0x1p63);
    assert_int_equal(weir_json_length(weir_json_get(k, "list")), 2);
    assert_true(weir_json_int_at(weir_json_get(k, "list"), 1, &i) && i == -8);
    /* what is not there, or of another kind */
    assert_false(weir_json_int_at(weir_json_get(k, "list"), 2, &i) ||
                 weir_json_get_int(k, "real", &i) || weir_json_get_text(k, "a", &word) ||
                 weir_json_get_real(k, "none", &x) || weir_json_get_int(k, "x", &i));
    assert_null(weir_json_get(k, "x"));
    assert_int_equal(weir_json_length(weir_json_get(k, "x")), 0);
    assert_int_equal(weir_json_each(k, count_keys, &n), WEIR_STALE);
    assert_int_equal(n, 5);
    free(text);
    weir_json_free(j);
    weir_json_free(k);
}

static void hostile_json_is_invalid(void **state)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "{\"a\":1,\"a\":2}",
                                      "{} x",
                                      "{\"a\":1e999}",
                                      "{\"a\":99999999999999999999}",
                                      "{\"a\":\"\\u0000\"}",
                                      "{\"\xff\":1}",
                                      "7",
                                      "{\"a\":\"\001\"}"};
    static const char words[] = "[\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]";
    static char deep[100001];
    weir_json *j = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_fails(weir_json_parse(bad[i], strlen(bad[i]), "file.json", &j), WEIR_INVALID,
                    "file.json: not valid JSON: line 1");
    memset(deep, '[', 100000);
    check_fails(weir_json_parse(deep, 100000, "deep", &j), WEIR_INVALID,
                "deep: JSON nested deeper");
    assert_null(j);
    memset(deep, '[', 32), memset(deep + 32, ']', 32);
    assert_int_equal(weir_json_parse(deep, 64, "deep", &j), WEIR_OK);
    weir_json_free(j);
    /* brackets in words do not count */
    assert_int_equal(weir_json_parse(words, sizeof words - 1, "words", &j), WEIR_OK);
    weir_json_free(j);
}

static int allowed; /* allocations until they fail */
static void *scarce(size_t n) { return allowed-- > 0 ? malloc(n) : NULL; }

static void json_without_memory_gives_no_text(void **state)
{
    bool whole = false;

    (void)state;
    json_set_alloc_funcs(scarce, free);
    for (int n = 0; n < 400 && !whole; n++) {
        allowed = n;
        weir_json *j = sample();
        allowed = 1 << 20;
        char *text = weir_json_text(j); /* memory is back: still no half of a line */
        if (text)
            assert_non_null(strstr(text, "\"list\":[7,-8]}"));
        whole = text;
        assert_true(n > 10 || !whole);
        free(text);
        weir_json_free(j);
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(whole);
}

/* ---- state ---- */

static char last_name[300];
static size_t last_at, last_whole;
static weir_err note_range(weir_io *io, const char *name, const weir_io_piece *piece)
{

    (void)io;
    snprintf(last_name, sizeof last_name, "%s", name);
    last_at = piece->at, last_whole = piece->whole;
    return WEIR_OK;
}
static weir_err note_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    (void)x;
    return note_range(io, name, &(weir_io_piece){.n = n, .whole = n, .keep = keep});
}

static void state_names_grow_and_shrink(void **state)
{
    weir_io io = {.range = note_range, .u64 = note_u64};
    char part[150];
    uint64_t u = 0;
    float x = 0;
    size_t a = weir_io_in(&io, "optim"), b = weir_io_in(&io, "conv1.weight");

    (void)state;
    assert_int_equal(weir_io_floats(&io, "momentum", &x, 1, WEIR_KEEP_SAME), WEIR_OK);
    assert_string_equal(last_name, "optim.conv1.weight.momentum");
    assert_int_equal(weir_io_range(&io, "half", &(weir_io_piece){&x, 9, 1, 10, WEIR_KEEP_SAME}),
                     WEIR_OK);
    assert_true(last_at == 9 && last_whole == 10);
    check_fails(weir_io_range(&io, "half", &(weir_io_piece){&x, 10, 1, 10, WEIR_KEEP_SAME}),
                WEIR_FAILED, "conv1.weight.half");
    check_fails(weir_io_range(&io, "half",
                              &(weir_io_piece){&x, 2, SIZE_MAX - 1, 10, WEIR_KEEP_SAME}),
                WEIR_FAILED, "do not fit");
    weir_io_out(&io, b);
    assert_int_equal(weir_io_u64(&io, "steps", &u, WEIR_KEEP_SAME), WEIR_OK);
    assert_string_equal(last_name, "optim.steps");
    weir_io_out(&io, a);
    assert_string_equal(io.prefix, "");
    memset(part, 'p', sizeof part - 1), part[sizeof part - 1] = 0;
    /* does not fit: no name may be cut short in silence */
    a = weir_io_in(&io, part), b = weir_io_in(&io, part);
    check_fails(weir_io_floats(&io, "m", &x, 1, WEIR_KEEP_SAME), WEIR_FAILED, "too long");
    weir_io_out(&io, b);
    assert_int_equal(weir_io_floats(&io, "m", &x, 1, WEIR_KEEP_SAME), WEIR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_one_sentence_with_its_code),
        cmocka_unit_test(long_errors_are_cut_not_spilled),
        cmocka_unit_test(tasks_have_slots_of_their_own),
        cmocka_unit_test(codes_have_names_and_exits),
        cmocka_unit_test(the_log_obeys_level_and_parts),
        cmocka_unit_test(arenas_give_aligned_zeroed_apart),
        cmocka_unit_test(what_is_beside_another_lies_on_its_page_as_that_does),
        cmocka_unit_test(impossible_sizes_give_null),
        cmocka_unit_test(arenas_call_back_the_latest_first),
        cmocka_unit_test(json_is_compact_and_in_order),
        cmocka_unit_test(json_reads_what_it_wrote),
        cmocka_unit_test(hostile_json_is_invalid),
        cmocka_unit_test(json_without_memory_gives_no_text),
        cmocka_unit_test(state_names_grow_and_shrink),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
