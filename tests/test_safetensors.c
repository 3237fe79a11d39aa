/* Files of arrays: written and read back bit for bit, opened by a reader that is not ours, and
 * refused when their bytes are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "train/safetensors.h"

static char path[] = "/tmp/weir-st-XXXXXX";

static int setup(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static void put(const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_list(weir_safetensors_list *l, char sum[WEIR_SAFETENSORS_SUM])
{
    struct stat st;
    uint64_t bytes;
    weir_file *f;

    assert_int_equal(weir_safetensors_list_seal(l, sum, &bytes), WEIR_OK);
    assert_int_equal(weir_file_create(path, &f), WEIR_OK);
    assert_int_equal(weir_safetensors_write(l, f), WEIR_OK);
    assert_int_equal(weir_file_commit(f), WEIR_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal((uint64_t)st.st_size, bytes);
}

static const float f32[6] = {1, -2.5f, 3, 4, 5, -0.0f};
static const uint64_t u64[2] = {7, UINT64_MAX};
static const unsigned char u8[3] = {9, 8, 255};
static const weir_safetensors_tensor weight = {.name = "fc.weight",
                                               .type = WEIR_SAFETENSORS_F32,
                                               .dims = 2,
                                               .dim = {2, 3}};
static const weir_safetensors_tensor steps = {.name = "steps",
                                              .type = WEIR_SAFETENSORS_U64,
                                              .dims = 1,
                                              .dim = {2}};
static const weir_safetensors_tensor raw = {.name = "raw \"\xc3\xa9\"",
                                            .type = WEIR_SAFETENSORS_U8,
                                            .dims = 1,
                                            .dim = {3}};
static const weir_safetensors_tensor none = {.name = "none",
                                             .type = WEIR_SAFETENSORS_F32,
                                             .dims = 2,
                                             .dim = {0, 4}};
static const weir_safetensors_tensor one = {.name = "one", .type = WEIR_SAFETENSORS_F32};

static weir_safetensors_list *sample(weir_arena *a)
{
    weir_safetensors_list *l = weir_safetensors_list_new(a);

    assert_int_equal(weir_safetensors_list_text(l, "note", "a \"quoted\"\nline"), WEIR_OK);
    assert_int_equal(weir_safetensors_list_add(l, &raw, 0, u8, 3), WEIR_OK);
    assert_int_equal(weir_safetensors_list_add(l, &weight, 12, f32 + 3, 12), WEIR_OK);
    assert_int_equal(weir_safetensors_list_add(l, &one, 0, f32, 4), WEIR_OK);
    assert_int_equal(weir_safetensors_list_add(l, &steps, 0, u64, 16), WEIR_OK);
    assert_int_equal(weir_safetensors_list_add(l, &none, 0, NULL, 0), WEIR_OK);
    assert_int_equal(weir_safetensors_list_add(l, &weight, 0, f32, 12), WEIR_OK);
    return l;
}

static void check_array(const weir_safetensors *st, const weir_safetensors_tensor *like,
                        const void *data, size_t bytes)
{
    const weir_safetensors_tensor *t = weir_safetensors_find(st, like->name);
    char got[64];

    assert_non_null(t);
    assert_int_equal(t->type, like->type);
    assert_int_equal(t->dims, like->dims);
    assert_memory_equal(t->dim, like->dim, sizeof t->dim);
    assert_int_equal(t->bytes, bytes);
    assert_int_equal(t->at % weir_safetensors_type_size(t->type), 0);
    assert_int_equal(weir_safetensors_read(st, t, 0, got, bytes), WEIR_OK);
    if (bytes)
        assert_memory_equal(got, data, bytes);
    assert_int_equal(weir_safetensors_read(st, t, bytes, got, 1), WEIR_DAMAGED);
}

static void round_trip(void **state)
{
    weir_arena *a = weir_arena_new();
    char sum[WEIR_SAFETENSORS_SUM];
    size_t count;
    weir_safetensors *st;

    (void)state;
    write_list(sample(a), sum);
    assert_int_equal(weir_safetensors_open(path, &st), WEIR_OK);
    assert_int_equal(weir_safetensors_check(st), WEIR_OK);
    assert_string_equal(weir_safetensors_sum(st), sum);
    assert_string_equal(weir_safetensors_text(st, "note"), "a \"quoted\"\nline");
    assert_string_equal(weir_safetensors_text(st, "weir.format"), "1");
    assert_null(weir_safetensors_text(st, "other"));
    assert_null(weir_safetensors_find(st, "other"));
    weir_safetensors_tensors(st, &count);
    assert_int_equal(count, 5);
    check_array(st, &weight, f32, 24);
    check_array(st, &steps, u64, 16);
    check_array(st, &raw, u8, 3);
    check_array(st, &none, NULL, 0);
    check_array(st, &one, f32, 4);
    weir_safetensors_close(st);
    weir_arena_free(a);
}

/* The layout, as somebody else would read it. */
static void python_reads_it(void **state)
{
    static const char script[] =
        "import json, struct, sys\n"
        "b = open(sys.argv[1], 'rb').read()\n"
        "n, = struct.unpack('<Q', b[:8])\n"
        "assert (8 + n) % 8 == 0\n"
        "h = json.loads(b[8:8 + n]); d = b[8 + n:]\n"
        "m = h.pop('__metadata__')\n"
        "assert all(isinstance(v, str) for v in m.values()), m\n"
        "end = 0\n"
        "for k, t in sorted(h.items(), key=lambda i: i[1]['data_offsets']):\n"
        "    assert t['data_offsets'][0] == end, k\n"
        "    end = t['data_offsets'][1]\n"
        "assert end == len(d)\n"
        "def get(k, f): return struct.unpack('<' + f, d[slice(*h[k]['data_offsets'])])\n"
        "assert h['fc.weight']['shape'] == [2, 3] and h['fc.weight']['dtype'] == 'F32'\n"
        "assert get('fc.weight', '6f') == (1, -2.5, 3, 4, 5, 0)\n"
        "assert h['steps']['dtype'] == 'U64' and get('steps', '2Q') == (7, 2**64 - 1)\n"
        "assert h['one']['shape'] == [] and h['none']['shape'] == [0, 4]\n";
    weir_arena *a = weir_arena_new();
    char sum[WEIR_SAFETENSORS_SUM], command[256];
    FILE *p;

    (void)state;
    if (system("python3 -c pass >/dev/null 2>&1"))
        skip();
    write_list(sample(a), sum);
    snprintf(command, sizeof command, "python3 - %s", path);
    p = popen(command, "w");
    assert_non_null(p);
    fputs(script, p);
    assert_int_equal(pclose(p), 0);
    weir_arena_free(a);
}

/* More than a block of data: the checksum does not depend on the pieces it comes in. */
static void pieces_do_not_matter(void **state)
{
    size_t n = 3 * WEIR_SAFETENSORS_BLOCK + 40,
           cuts[] = {0, 4, WEIR_SAFETENSORS_BLOCK - 4, 2 * WEIR_SAFETENSORS_BLOCK + 8, n};
    unsigned char *data = malloc(n);
    weir_safetensors_tensor like = {.name = "x",
                                    .type = WEIR_SAFETENSORS_U8,
                                    .dims = 1,
                                    .dim = {(int64_t)n}};
    weir_arena *a = weir_arena_new();
    weir_safetensors_list *whole = weir_safetensors_list_new(a),
                          *cut = weir_safetensors_list_new(a);
    char sum[WEIR_SAFETENSORS_SUM], again[WEIR_SAFETENSORS_SUM];
    weir_safetensors *st;

    (void)state;
    for (size_t i = 0; i < n; i++)
        data[i] = (unsigned char)(i * 31 >> 5);
    assert_int_equal(weir_safetensors_list_add(whole, &like, 0, data, n), WEIR_OK);
    for (int i = 3; i >= 0; i--)
        assert_int_equal(weir_safetensors_list_add(cut, &like, cuts[i], data + cuts[i],
                                                   cuts[i + 1] - cuts[i]),
                         WEIR_OK);
    write_list(whole, sum);
    write_list(cut, again);
    assert_string_equal(sum, again);
    assert_int_equal(weir_safetensors_open(path, &st), WEIR_OK);
    assert_int_equal(weir_safetensors_check(st), WEIR_OK);
    weir_safetensors_close(st);
    weir_arena_free(a);
    free(data);
}

static void bad_lists_are_refused(void **state)
{
    weir_arena *a = weir_arena_new();
    weir_safetensors_list *l = weir_safetensors_list_new(a);
    weir_safetensors_tensor other = weight, odd = weight;
    char sum[WEIR_SAFETENSORS_SUM];
    uint64_t bytes;

    (void)state;
    other.dim[0] = 3, other.dim[1] = 2;
    assert_int_equal(weir_safetensors_list_add(l, &weight, 0, f32, 8), WEIR_OK);
    assert_int_equal(weir_safetensors_list_add(l, &other, 8, f32, 16), WEIR_FAILED);
    assert_int_equal(weir_safetensors_list_add(l, &weight, 20, f32, 8), WEIR_FAILED);
    assert_int_equal(weir_safetensors_list_seal(l, sum, &bytes),
                     WEIR_FAILED); /* the end is missing */
    assert_int_equal(weir_safetensors_list_add(l, &weight, 12, f32, 12), WEIR_OK);
    assert_int_equal(weir_safetensors_list_seal(l, sum, &bytes), WEIR_FAILED); /* a hole */
    assert_int_equal(weir_safetensors_list_add(l, &weight, 4, f32, 8), WEIR_OK);
    assert_int_equal(weir_safetensors_list_seal(l, sum, &bytes), WEIR_FAILED); /* an overlap */
    assert_non_null(strstr(weir_why_text(), "fc.weight"));
    odd.name = "__metadata__";
    assert_int_equal(weir_safetensors_list_add(l, &odd, 0, f32, 24), WEIR_FAILED);
    odd.name = "two\nlines";
    assert_int_equal(weir_safetensors_list_add(l, &odd, 0, f32, 24), WEIR_FAILED);
    odd.name = "big", odd.dim[0] = odd.dim[1] = INT64_MAX;
    assert_int_equal(weir_safetensors_list_add(l, &odd, 0, f32, 24), WEIR_FAILED);
    weir_arena_free(a);
}

/* A header and `data` bytes behind it. */
static size_t make(char *to, const char *header, size_t data)
{
    size_t n = strlen(header);

    memset(to, 0, 8 + n + data);
    for (int i = 0; i < 8; i++)
        to[i] = (char)((uint64_t)n >> 8 * i);
    memcpy(to + 8, header, n);
    return 8 + n + data;
}

static void foreign_files_open(void **state)
{
    char bytes[512];
    weir_safetensors *st;

    (void)state;
    put(bytes, make(bytes,
                    "{\"b\":{\"shape\":[2],\"dtype\":\"F64\",\"data_offsets\":[8,24]},"
                    "\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}",
                    24));
    assert_int_equal(weir_safetensors_open(path, &st), WEIR_OK);
    assert_int_equal(weir_safetensors_find(st, "a")->at, 0);
    assert_int_equal(weir_safetensors_check(st), WEIR_DAMAGED); /* nobody vouches for it */
    assert_string_equal(weir_safetensors_sum(st), "");
    weir_safetensors_close(st);
    put(bytes, make(bytes, "{}", 0));
    assert_int_equal(weir_safetensors_open(path, &st), WEIR_OK);
    weir_safetensors_close(st);
}

static const struct {
    const char *header;
    size_t data;
} hostile[] = {
    {"", 0},
    {"[]", 0},
    {"{", 0},
    {"{} x", 0},
    {"nonsense", 0},
    {"{}", 1}, /* bytes that nobody names */
    {"{\"__metadata__\":3}", 0},
    {"{\"__metadata__\":{\"a\":3}}", 0},
    {"{\"__metadata__\":{\"a\\n\":\"b\"}}", 0},
    {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4},
    {"{\"a\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4},
    {"{\"a\":5}", 4},
    {"{\"a\":{}}", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}",
     4}, /* times 4: 4 */
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8}, /* a hole in front */
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
     12},
};

static void hostile_headers_are_refused(void **state)
{
    char bytes[512];
    weir_safetensors *st;

    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        size_t n = make(bytes, hostile[i].header, hostile[i].data);
        put(bytes, n);
        if (weir_safetensors_open(path, &st) != WEIR_DAMAGED)
            fail_msg("%s was not refused", hostile[i].header);
        assert_non_null(strstr(weir_why_text(), path));
        assert_int_equal(weir_safetensors_parse(bytes, n, n, "memory", &st), WEIR_DAMAGED);
    }
}

static void hostile_lengths_are_refused(void **state)
{
    static const uint64_t lengths[] = {
        0, 1, 3, 100, WEIR_SAFETENSORS_HEADER_MAX, UINT64_MAX, UINT64_MAX - 7, 1ull << 63};
    char bytes[10] = "........{}";
    weir_safetensors *st;

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memcpy(bytes, &lengths[i], 8);
        put(bytes, sizeof bytes);
        assert_int_equal(weir_safetensors_open(path, &st), WEIR_DAMAGED);
    }
    for (size_t n = 0; n < 10; n++) {
        put(bytes, n);
        assert_int_equal(weir_safetensors_open(path, &st), WEIR_DAMAGED);
    }
    assert_int_equal(weir_safetensors_open("/nowhere/x", &st), WEIR_DAMAGED);
    assert_int_equal(weir_safetensors_open("/tmp", &st), WEIR_DAMAGED);
    assert_int_equal(weir_safetensors_open("/dev/zero", &st), WEIR_DAMAGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(python_reads_it),
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(bad_lists_are_refused),
        cmocka_unit_test(foreign_files_open),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(hostile_lengths_are_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
