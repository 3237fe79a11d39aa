/* safetensors.c - reading. The header is checked whole before anything else is believed. */
#include "train/safetensors.h"
#include "core/hash.h"
#include "core/json.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "arrays are written as they lie in memory");

enum { SEAL_AT = sizeof WEIR_SAFETENSORS_SEAL - 1, DIGITS = WEIR_SAFETENSORS_SUM - 1 };

struct weir_safetensors {
    char *what;   /* the file, for messages */
    int fd;       /* -1: parsed from memory */
    char *header; /* with zeros for the checksum's digits */
    size_t length;
    uint64_t data; /* bytes behind the header */
    weir_json *json;
    weir_safetensors_tensor *tensor; /* sorted by their place in the file */
    size_t count, room;
    char sum[WEIR_SAFETENSORS_SUM];
};

/* ---- the header ---- */

static weir_err parse_text(void *arg, const char *key, const weir_json *value)
{
    weir_safetensors *st = arg;
    const char *text;

    (void)value;
    if (!weir_safetensors_name_ok(key) ||
        !weir_json_get_text(weir_json_get(st->json, "__metadata__"), key, &text))
        return weir_fail(
            WEIR_DAMAGED,
            "%s: the header's __metadata__ holds something that is not a text under a name",
            st->what);
    return WEIR_OK;
}

static weir_err parse_metadata(weir_safetensors *st, const weir_json *meta)
{
    if (!weir_json_is_object(meta))
        return weir_fail(WEIR_DAMAGED, "%s: the header's __metadata__ is not an object", st->what);
    return weir_json_each(meta, parse_text, st);
}

static weir_err parse_type(const weir_safetensors *st, const weir_json *entry,
                           weir_safetensors_tensor *t)
{
    const char *type;

    if (!weir_json_get_text(entry, "dtype", &type) || !weir_safetensors_type_find(type, &t->type))
        return weir_fail(WEIR_DAMAGED,
                         "%s: tensor '%s' has no dtype that is F32, F64, U64, I64 or U8", st->what,
                         t->name);
    return WEIR_OK;
}

/* The shape, and how many bytes it takes. */
static weir_err parse_shape(const weir_safetensors *st, const weir_json *entry,
                            weir_safetensors_tensor *t, uint64_t *bytes)
{
    const weir_json *shape = weir_json_get(entry, "shape");
    size_t dims = shape ? weir_json_length(shape) : 0;

    if (!shape || dims > WEIR_SAFETENSORS_DIMS)
        return weir_fail(WEIR_DAMAGED, "%s: tensor '%s' has no shape of at most %d dimensions",
                         st->what, t->name, WEIR_SAFETENSORS_DIMS);
    *bytes = weir_safetensors_type_size(t->type);
    for (size_t i = 0; i < dims; i++) {
        if (!weir_json_int_at(shape, i, &t->dim[i]) || t->dim[i] < 0)
            return weir_fail(WEIR_DAMAGED, "%s: a dimension of tensor '%s' is not a size", st->what,
                             t->name);
        if (__builtin_mul_overflow(*bytes, (uint64_t)t->dim[i], bytes))
            return weir_fail(WEIR_DAMAGED, "%s: tensor '%s' is larger than any memory", st->what,
                             t->name);
    }
    t->dims = (int)dims;
    return WEIR_OK;
}

static weir_err parse_offsets(const weir_safetensors *st, const weir_json *entry,
                              weir_safetensors_tensor *t)
{
    const weir_json *offsets = weir_json_get(entry, "data_offsets");
    int64_t from, to;

    if (!offsets || weir_json_length(offsets) != 2 || !weir_json_int_at(offsets, 0, &from) ||
        !weir_json_int_at(offsets, 1, &to))
        return weir_fail(WEIR_DAMAGED, "%s: tensor '%s' has no pair of data_offsets", st->what,
                         t->name);
    if (from < 0 || to < from || (uint64_t)to > st->data)
        return weir_fail(WEIR_DAMAGED,
                         "%s: tensor '%s' lies at %" PRId64 "..%" PRId64 " of %" PRIu64
                         " bytes of data",
                         st->what, t->name, from, to, st->data);
    t->at = (uint64_t)from;
    t->bytes = (uint64_t)(to - from);
    return WEIR_OK;
}

static weir_err grow(weir_safetensors *st)
{
    size_t room = st->room ? 2 * st->room : 64;
    weir_safetensors_tensor *more = realloc(st->tensor, room * sizeof *more);

    if (!more)
        return weir_fail_nomem(room * sizeof *more);
    st->tensor = more;
    st->room = room;
    return WEIR_OK;
}

static weir_err parse_entry(void *arg, const char *key, const weir_json *entry)
{
    weir_safetensors *st = arg;
    weir_safetensors_tensor t = {.name = key};
    uint64_t bytes = 0;

    if (!strcmp(key, "__metadata__"))
        return parse_metadata(st, entry);
    if (!weir_safetensors_name_ok(key))
        return weir_fail(WEIR_DAMAGED,
                         "%s: a tensor's name is empty, over %d bytes or holds control characters",
                         st->what, WEIR_SAFETENSORS_NAME);
    if (!weir_json_is_object(entry))
        return weir_fail(WEIR_DAMAGED, "%s: what the header says of '%s' is not an object",
                         st->what, key);
    WEIR_TRY(parse_type(st, entry, &t));
    WEIR_TRY(parse_shape(st, entry, &t, &bytes));
    WEIR_TRY(parse_offsets(st, entry, &t));
    if (bytes != t.bytes)
        return weir_fail(WEIR_DAMAGED,
                         "%s: tensor '%s' has %" PRIu64 " bytes, its shape and type take %" PRIu64,
                         st->what, key, t.bytes, bytes);
    if (st->count == st->room)
        WEIR_TRY(grow(st));
    st->tensor[st->count++] = t;
    return WEIR_OK;
}

static int by_place(const void *a, const void *b)
{
    const weir_safetensors_tensor *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* One behind the other, from the first byte of the data to the last. */
static weir_err check_places(weir_safetensors *st)
{
    uint64_t end = 0;

    if (st->count)
        qsort(st->tensor, st->count, sizeof *st->tensor, by_place);
    for (size_t i = 0; i < st->count; end += st->tensor[i++].bytes)
        if (st->tensor[i].at != end)
            return weir_fail(WEIR_DAMAGED,
                             "%s: tensor '%s' begins at byte %" PRIu64 " of the data, %" PRIu64
                             " was expected",
                             st->what, st->tensor[i].name, st->tensor[i].at, end);
    if (end != st->data)
        return weir_fail(WEIR_DAMAGED, "%s: its tensors take %" PRIu64 " bytes, it holds %" PRIu64,
                         st->what, end, st->data);
    return WEIR_OK;
}

/* Takes the checksum out of the header: it was worked out with zeros in its place. */
static void take_sum(weir_safetensors *st)
{
    if (st->length <= SEAL_AT + DIGITS || memcmp(st->header, WEIR_SAFETENSORS_SEAL, SEAL_AT))
        return;
    memcpy(st->sum, st->header + SEAL_AT, DIGITS);
    memset(st->header + SEAL_AT, '0', DIGITS);
}

static weir_err parse_header(weir_safetensors *st)
{
    char why[WEIR_WHY_MAX];
    weir_err err = weir_json_parse(st->header, st->length, st->what, &st->json);

    if (err == WEIR_INVALID) {
        snprintf(why, sizeof why, "%s", weir_why_text());
        return weir_fail(WEIR_DAMAGED, "%s", why);
    }
    WEIR_TRY(err);
    if (!weir_json_is_object(st->json))
        return weir_fail(WEIR_DAMAGED, "%s: its header is not a JSON object", st->what);
    WEIR_TRY(weir_json_each(st->json, parse_entry, st));
    take_sum(st);
    return check_places(st);
}

/* ---- opening ---- */

static weir_err st_new(const char *what, weir_safetensors **made)
{
    weir_safetensors *st = calloc(1, sizeof *st);

    if (!st || !(st->what = strdup(what))) {
        free(st);
        return weir_fail_nomem(sizeof *st);
    }
    st->fd = -1;
    *made = st;
    return WEIR_OK;
}

void weir_safetensors_close(weir_safetensors *st)
{
    if (!st)
        return;
    weir_json_free(st->json);
    free(st->tensor);
    free(st->header);
    if (st->fd >= 0)
        close(st->fd);
    free(st->what);
    free(st);
}

static weir_err finish(weir_safetensors *st, weir_err err, weir_safetensors **opened)
{
    if (err)
        weir_safetensors_close(st);
    else
        *opened = st;
    return err;
}

/* Length of the header, from the first 8 bytes of a file of `whole` bytes. */
static weir_err header_length(weir_safetensors *st, const unsigned char first[8], uint64_t whole)
{
    uint64_t n = 0;

    for (int i = 7; i >= 0; i--)
        n = n << 8 | first[i];
    if (n < 2 || n > WEIR_SAFETENSORS_HEADER_MAX || n > whole - 8)
        return weir_fail(WEIR_DAMAGED,
                         "%s: its header would have %" PRIu64 " bytes, the file has %" PRIu64,
                         st->what, n, whole);
    st->length = (size_t)n;
    st->data = whole - 8 - n;
    if (!(st->header = malloc(st->length + 1)))
        return weir_fail_nomem(st->length + 1);
    st->header[st->length] = 0;
    return WEIR_OK;
}

static weir_err too_short(const char *what, uint64_t whole)
{
    return weir_fail(WEIR_DAMAGED, "%s: %" PRIu64 " bytes are too few for a safetensors file", what,
                     whole);
}

static weir_err parse_memory(weir_safetensors *st, const unsigned char *bytes, size_t have,
                             uint64_t whole)
{
    if (have < 8 || whole < have)
        return too_short(st->what, whole);
    WEIR_TRY(header_length(st, bytes, whole));
    if (st->length > have - 8)
        return weir_fail(WEIR_DAMAGED, "%s: its header is cut off", st->what);
    memcpy(st->header, bytes + 8, st->length);
    return parse_header(st);
}

weir_err weir_safetensors_parse(const void *bytes, size_t have, uint64_t whole, const char *what,
                                weir_safetensors **opened)
{
    weir_safetensors *st;
    weir_err err;

    WEIR_TRY(st_new(what, &st));
    err = parse_memory(st, bytes, have, whole);
    return finish(st, err, opened);
}

static weir_err read_at(const weir_safetensors *st, uint64_t at, void *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(st->fd, (char *)to + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return weir_fail(WEIR_DAMAGED, "%s cannot be read: %s", st->what, strerror(errno));
        if (n == 0)
            return weir_fail(WEIR_DAMAGED, "%s ends at byte %" PRIu64, st->what, at + done);
        done += (size_t)n;
    }
    return WEIR_OK;
}

static weir_err parse_file(weir_safetensors *st)
{
    unsigned char first[8];
    struct stat s;

    /* not to wait for the writer of a pipe that somebody put there */
    st->fd = open(st->what, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (st->fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return weir_fail(WEIR_DAMAGED, "%s is missing", st->what);
    /* the file may be good: permissions, descriptors, memory */
    if (st->fd < 0 || fstat(st->fd, &s))
        return weir_fail(WEIR_FAILED, "%s cannot be opened: %s", st->what, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return weir_fail(WEIR_DAMAGED, "%s is not a regular file", st->what);
    if (s.st_size < 8)
        return too_short(st->what, (uint64_t)s.st_size);
    WEIR_TRY(read_at(st, 0, first, sizeof first));
    WEIR_TRY(header_length(st, first, (uint64_t)s.st_size));
    WEIR_TRY(read_at(st, 8, st->header, st->length));
    return parse_header(st);
}

weir_err weir_safetensors_open(const char *path, weir_safetensors **opened)
{
    weir_safetensors *st;
    weir_err err;

    WEIR_TRY(st_new(path, &st));
    err = parse_file(st);
    return finish(st, err, opened);
}

/* ---- what is in it ---- */

static weir_err sum_file(const weir_safetensors *st, unsigned char *block, uint64_t *sum)
{
    uint64_t hash = weir_hash(st->header, st->length, 0);

    for (uint64_t at = 0; at < st->data;) {
        size_t n = st->data - at < WEIR_SAFETENSORS_BLOCK ? (size_t)(st->data - at)
                                                          : WEIR_SAFETENSORS_BLOCK;
        WEIR_TRY(read_at(st, 8 + st->length + at, block, n));
        hash = weir_hash(block, n, hash);
        at += n;
    }
    *sum = hash;
    return WEIR_OK;
}

weir_err weir_safetensors_check(weir_safetensors *st)
{
    unsigned char *block = malloc(WEIR_SAFETENSORS_BLOCK);
    char found[WEIR_SAFETENSORS_SUM];
    const char *format;
    uint64_t sum = 0;
    weir_err err;

    if (!block)
        return weir_fail_nomem(WEIR_SAFETENSORS_BLOCK);
    err = sum_file(st, block, &sum);
    free(block);
    WEIR_TRY(err);
    snprintf(found, sizeof found, "%016" PRIx64, sum);
    if (!st->sum[0])
        return weir_fail(WEIR_DAMAGED, "%s: it has no checksum of weir's", st->what);
    if (memcmp(found, st->sum, DIGITS))
        return weir_fail(WEIR_DAMAGED, "%s: its checksum does not fit: it comes to %s", st->what,
                         found);
    format = weir_safetensors_text(st, "weir.format");
    if (!format || strcmp(format, "1"))
        return weir_fail(WEIR_MISFIT, "%s: it is not of format 1, the one that this program knows",
                         st->what);
    return WEIR_OK;
}

const char *weir_safetensors_sum(const weir_safetensors *st) { return st->sum; }

const char *weir_safetensors_text(const weir_safetensors *st, const char *key)
{
    const weir_json *meta = weir_json_get(st->json, "__metadata__");
    const char *text;

    return meta && weir_json_get_text(meta, key, &text) ? text : NULL;
}

const weir_safetensors_tensor *weir_safetensors_tensors(const weir_safetensors *st, size_t *count)
{
    *count = st->count;
    return st->tensor;
}

const weir_safetensors_tensor *weir_safetensors_find(const weir_safetensors *st, const char *name)
{
    for (size_t i = 0; i < st->count; i++)
        if (!strcmp(st->tensor[i].name, name))
            return &st->tensor[i];
    return NULL;
}

weir_err weir_safetensors_read(const weir_safetensors *st, const weir_safetensors_tensor *t,
                               uint64_t at, void *to, size_t bytes)
{
    if (at > t->bytes || bytes > t->bytes - at)
        return weir_fail(WEIR_DAMAGED,
                         "%s: tensor '%s' has %" PRIu64 " bytes, %zu from byte %" PRIu64
                         " are wanted",
                         st->what, t->name, t->bytes, bytes, at);
    return read_at(st, 8 + st->length + t->at + at, to, bytes);
}
