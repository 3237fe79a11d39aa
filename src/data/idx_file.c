/* idx_file.c - reading IDX. Every number in a file is an enemy's until it has been compared with
 * the file's length. */
#include "data/idx_file.h"
#include "core/hash.h"
#include "data/files.h"
#include <endian.h>
#include <math.h>
#include <string.h>

static uint32_t big_endian(const unsigned char *at)
{
    uint32_t x;

    memcpy(&x, at, sizeof x);
    return be32toh(x);
}

static size_t type_size(weir_array_type type) { return type == WEIR_ARRAY_U8 ? 1 : 4; }

static weir_err parse_magic(const char *name, const unsigned char *b, size_t n, weir_array *a)
{
    if (n < 4)
        return weir_fail(WEIR_INVALID, "%s: %zu bytes were found, an IDX header was expected", name,
                         n);
    if (b[0] || b[1] || (b[2] != WEIR_ARRAY_U8 && b[2] != WEIR_ARRAY_I32 && b[2] != WEIR_ARRAY_F32))
        return weir_fail(WEIR_INVALID,
                         "%s: it begins with %02x %02x %02x %02x; IDX was expected: 00 00, then 08 "
                         "(bytes), 0c (int32) or 0d (float32)",
                         name, b[0], b[1], b[2], b[3]);
    if (b[3] < 1 || b[3] > 4)
        return weir_fail(WEIR_INVALID, "%s: %d dimensions were found, 1 to 4 were expected", name,
                         b[3]);
    if (n < 4 + 4 * (size_t)b[3])
        return weir_fail(WEIR_INVALID,
                         "%s: it ends within its header: %zu bytes were found, %d were expected",
                         name, n, 4 + 4 * b[3]);
    a->type = b[2];
    a->dims = b[3];
    return WEIR_OK;
}

/* The sizes, and that their product is just what the file holds. */
static weir_err parse_sizes(const char *name, const unsigned char *b, size_t n, weir_array *a)
{
    uint64_t bytes = type_size(a->type), found = n - 4 - 4 * (size_t)a->dims;
    bool over = false;

    a->width = 1;
    for (int i = 0; i < a->dims; i++) {
        a->dim[i] = big_endian(b + 4 + 4 * i);
        if (!a->dim[i])
            return weir_fail(WEIR_INVALID, "%s: dimension %d is 0", name, i + 1);
        over = __builtin_mul_overflow(bytes, a->dim[i], &bytes) || over;
        if (i)
            over = __builtin_mul_overflow(a->width, a->dim[i], &a->width) || over;
    }
    if (over)
        return weir_fail(WEIR_INVALID,
                         "%s: its dimensions promise more values than any file can hold", name);
    if (bytes != found)
        return weir_fail(
            WEIR_INVALID,
            "%s: %llu bytes of values were found, its dimensions promise %llu: it is %s", name,
            (unsigned long long)found, (unsigned long long)bytes,
            found < bytes ? "cut short" : "too long");
    return WEIR_OK;
}

int32_t weir_array_int(const weir_array *a, uint64_t i)
{
    return a->type == WEIR_ARRAY_U8 ? a->value[i] : (int32_t)big_endian(a->value + 4 * i);
}

double weir_array_number(const weir_array *a, uint64_t i)
{
    uint32_t bits;
    float x;

    if (a->type != WEIR_ARRAY_F32)
        return weir_array_int(a, i);
    bits = big_endian(a->value + 4 * i);
    memcpy(&x, &bits, sizeof x);
    return x;
}

static weir_err check_finite(const weir_array *a)
{
    uint64_t n = a->dim[0] * a->width;

    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(weir_array_number(a, i)))
            return weir_fail(
                WEIR_INVALID,
                "%s: value %llu of sample %llu (both from 0) is %s; a finite number was expected",
                a->name, (unsigned long long)(i % a->width), (unsigned long long)(i / a->width),
                isnan(weir_array_number(a, i)) ? "not a number" : "infinite");
    return WEIR_OK;
}

weir_err weir_array_parse(const char *name, const void *bytes, size_t n, weir_array *a)
{
    weir_array made = {.name = name};

    WEIR_TRY(parse_magic(name, bytes, n, &made));
    WEIR_TRY(parse_sizes(name, bytes, n, &made));
    made.value = (const unsigned char *)bytes + 4 + 4 * made.dims;
    if (made.type == WEIR_ARRAY_F32)
        WEIR_TRY(check_finite(&made));
    *a = made;
    return WEIR_OK;
}

weir_err weir_array_labels(const weir_array *samples, const weir_array *label, int64_t *classes)
{
    int64_t most = 0, bound = (*classes ? *classes : WEIR_ARRAY_CLASSES) - 1;

    if (label->dims != 1 || label->type == WEIR_ARRAY_F32)
        return weir_fail(
            WEIR_INVALID,
            "%s: %d dimensions of %s were found; labels are one dimension of bytes or int32",
            label->name, label->dims, label->type == WEIR_ARRAY_F32 ? "float32" : "whole numbers");
    if (label->dim[0] != samples->dim[0])
        return weir_fail(
            WEIR_INVALID,
            "%s: %llu labels were found, %llu were expected, one for each sample of %s",
            label->name, (unsigned long long)label->dim[0], (unsigned long long)samples->dim[0],
            samples->name);
    for (uint64_t i = 0; i < label->dim[0]; i++) {
        int32_t x = weir_array_int(label, i);
        if (x < 0 || x > bound)
            return weir_fail(WEIR_INVALID,
                             "%s: label %llu (from 0) is %d; 0 to %lld was expected%s", label->name,
                             (unsigned long long)i, x, (long long)bound,
                             *classes ? ", the classes there are" : "");
        most = x > most ? x : most;
    }
    if (!*classes)
        *classes = most + 1;
    return WEIR_OK;
}

uint64_t weir_array_hash(const weir_array *a, uint64_t seed)
{
    seed = weir_hash(a->dim, (size_t)a->dims * sizeof *a->dim, seed ^ (uint64_t)a->type);
    return weir_hash(a->value, a->dim[0] * a->width * type_size(a->type), seed);
}

weir_err weir_array_load(const char *dir, const char *word, const char *wanted, weir_arena *arena,
                         char **bytes, weir_array *a)
{
    const char *path;
    size_t n;

    WEIR_TRY(weir_files_one(dir, weir_files_begin, word, wanted, arena, &path));
    WEIR_TRY(weir_files_read(path, bytes, &n));
    return weir_array_parse(path, *bytes, n, a);
}
