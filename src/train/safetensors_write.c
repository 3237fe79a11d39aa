/* safetensors_write.c - writing: a list of pieces of memory, sealed, then streamed; no array is
 * copied. */
#include "core/hash.h"
#include "core/json.h"
#include "train/safetensors.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct piece {
    uint64_t at;
    const void *data;
    size_t bytes;
    struct piece *next;
} piece;

typedef struct entry {
    weir_safetensors_tensor t;
    piece *first; /* in rising order of `at` */
    struct entry *next;
} entry;

typedef struct text {
    const char *key, *value;
    struct text *next;
} text;

struct weir_safetensors_list {
    weir_arena *arena;
    entry *first, **end;
    text *texts, **texts_end;
    const char *header; /* set by the seal: padded */
    size_t length;
};

weir_safetensors_list *weir_safetensors_list_new(weir_arena *arena)
{
    weir_safetensors_list *l = WEIR_NEW(arena, weir_safetensors_list, 1);

    if (l)
        *l = (weir_safetensors_list){.arena = arena, .end = &l->first, .texts_end = &l->texts};
    return l;
}

weir_err weir_safetensors_list_text(weir_safetensors_list *l, const char *key, const char *value)
{
    text *t = WEIR_NEW(l->arena, text, 1);

    if (!t || !(t->key = weir_copy_text(l->arena, key)) ||
        !(t->value = weir_copy_text(l->arena, value)))
        return weir_fail_nomem(strlen(value));
    *l->texts_end = t;
    l->texts_end = &t->next;
    return WEIR_OK;
}

/* ---- the list ---- */

static weir_err check_like(const weir_safetensors_tensor *like, uint64_t *bytes)
{
    if (!weir_safetensors_name_ok(like->name) || !strcmp(like->name, "__metadata__"))
        return weir_fail(WEIR_FAILED, "'%.300s' cannot be the name of a tensor in a file",
                         like->name);
    if (like->dims < 0 || like->dims > WEIR_SAFETENSORS_DIMS)
        return weir_fail(WEIR_FAILED, "tensor '%s': %d dimensions do not go into a file",
                         like->name, like->dims);
    *bytes = weir_safetensors_type_size(like->type);
    for (int i = 0; i < like->dims; i++)
        if (like->dim[i] < 0 || __builtin_mul_overflow(*bytes, (uint64_t)like->dim[i], bytes))
            return weir_fail(WEIR_FAILED, "tensor '%s': its shape is no shape", like->name);
    return WEIR_OK;
}

static weir_err new_entry(weir_safetensors_list *l, const weir_safetensors_tensor *like,
                          uint64_t bytes, entry **made)
{
    entry *e = WEIR_NEW(l->arena, entry, 1);

    if (!e)
        return weir_fail_nomem(sizeof *e);
    e->t = *like;
    e->t.bytes = bytes;
    if (!(e->t.name = weir_copy_text(l->arena, like->name)))
        return weir_fail_nomem(strlen(like->name));
    *l->end = e;
    l->end = &e->next;
    *made = e;
    return WEIR_OK;
}

static bool same_shape(const weir_safetensors_tensor *a, const weir_safetensors_tensor *b)
{
    return a->type == b->type && a->dims == b->dims &&
           !memcmp(a->dim, b->dim, (size_t)a->dims * sizeof a->dim[0]);
}

static weir_err find_entry(weir_safetensors_list *l, const weir_safetensors_tensor *like,
                           uint64_t bytes, entry **found)
{
    for (entry *e = l->first; e; e = e->next) {
        if (strcmp(e->t.name, like->name))
            continue;
        if (!same_shape(&e->t, like))
            return weir_fail(WEIR_FAILED, "'%s' goes into a file twice, with different shapes",
                             like->name);
        *found = e;
        return WEIR_OK;
    }
    return new_entry(l, like, bytes, found);
}

weir_err weir_safetensors_list_add(weir_safetensors_list *l, const weir_safetensors_tensor *like,
                                   uint64_t at, const void *data, size_t bytes)
{
    piece *p, **where;
    uint64_t whole = 0;
    entry *e = NULL;

    WEIR_TRY(check_like(like, &whole));
    if (at > whole || bytes > whole - at)
        return weir_fail(WEIR_FAILED, "tensor '%s': a piece does not fit in its %" PRIu64 " bytes",
                         like->name, whole);
    WEIR_TRY(find_entry(l, like, whole, &e));
    if (!bytes)
        return WEIR_OK;
    if (!(p = WEIR_NEW(l->arena, piece, 1)))
        return weir_fail_nomem(sizeof *p);
    for (where = &e->first; *where && (*where)->at < at;)
        where = &(*where)->next;
    *p = (piece){.at = at, .data = data, .bytes = bytes, .next = *where};
    *where = p;
    return WEIR_OK;
}

/* ---- the seal ---- */

static weir_err check_cover(const entry *e)
{
    uint64_t end = 0;

    for (const piece *p = e->first; p; end += p->bytes, p = p->next)
        if (p->at != end)
            return weir_fail(WEIR_FAILED, "'%s' goes into a file with byte %" PRIu64 " %s",
                             e->t.name, p->at < end ? p->at : end,
                             p->at < end ? "twice" : "missing");
    if (end != e->t.bytes)
        return weir_fail(WEIR_FAILED, "'%s' goes into a file with byte %" PRIu64 " missing",
                         e->t.name, end);
    return WEIR_OK;
}

/* Sorts by size of type, largest first, so that every array is aligned; else the order stays. */
static void sort_entries(weir_safetensors_list *l)
{
    static const size_t sizes[] = {8, 4, 1};
    entry *sorted = NULL, **end = &sorted;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (entry **e = &l->first; *e;) {
            if (weir_safetensors_type_size((*e)->t.type) != sizes[i]) {
                e = &(*e)->next;
                continue;
            }
            *end = *e;
            *e = (*e)->next;
            end = &(*end)->next;
            *end = NULL;
        }
    l->first = sorted;
}

static weir_err lay_out(weir_safetensors_list *l, uint64_t *bytes)
{
    *bytes = 0;
    sort_entries(l);
    for (entry *e = l->first; e; e = e->next) {
        WEIR_TRY(check_cover(e));
        e->t.at = *bytes;
        *bytes += e->t.bytes;
    }
    return WEIR_OK;
}

static weir_json *describe(const weir_safetensors_tensor *t)
{
    weir_json *j = weir_json_object(), *shape = weir_json_array(), *offsets = weir_json_array();

    for (int i = 0; i < t->dims; i++)
        weir_json_add_int(shape, t->dim[i]);
    weir_json_add_int(offsets, (int64_t)t->at);
    weir_json_add_int(offsets, (int64_t)(t->at + t->bytes));
    weir_json_put_text(j, "dtype", weir_safetensors_type_name(t->type));
    weir_json_put(j, "shape", shape);
    weir_json_put(j, "data_offsets", offsets);
    return j;
}

static char *header_text(const weir_safetensors_list *l)
{
    weir_json *j = weir_json_object(), *meta = weir_json_object();
    char *made;

    weir_json_put_text(meta, "weir.checksum", "0000000000000000");
    weir_json_put_text(meta, "weir.format", "1");
    for (const text *t = l->texts; t; t = t->next)
        weir_json_put_text(meta, t->key, t->value);
    weir_json_put(j, "__metadata__", meta);
    for (const entry *e = l->first; e; e = e->next)
        weir_json_put(j, e->t.name, describe(&e->t));
    made = weir_json_text(j);
    weir_json_free(j);
    return made;
}

/* The header in the arena, padded; zeros for its checksum. */
static weir_err make_header(weir_safetensors_list *l, char **header)
{
    char *made = header_text(l);
    size_t n = made ? strlen(made) : 0, padded = (n + 7) / 8 * 8;

    if (!made || !(*header = weir_alloc(l->arena, padded + 1))) {
        free(made);
        return weir_fail_nomem(padded);
    }
    memset(*header, ' ', padded);
    memcpy(*header, made, n);
    free(made);
    if (padded > WEIR_SAFETENSORS_HEADER_MAX)
        return weir_fail(WEIR_FAILED, "a file's header would have %zu bytes, more than %u", padded,
                         WEIR_SAFETENSORS_HEADER_MAX);
    l->length = padded;
    return WEIR_OK;
}

/* Blocks of the data, whatever pieces it comes in: only a block that is not all of one piece is put
 * together here. */
typedef struct sum {
    uint64_t hash;
    size_t used;
    unsigned char *block;
} sum;

static void sum_add(sum *s, const unsigned char *data, size_t n)
{
    while (n) {
        size_t take = WEIR_SAFETENSORS_BLOCK - s->used < n ? WEIR_SAFETENSORS_BLOCK - s->used : n;
        if (take == WEIR_SAFETENSORS_BLOCK) {
            s->hash = weir_hash(data, take, s->hash);
        } else {
            memcpy(s->block + s->used, data, take);
            s->used += take;
        }
        if (s->used == WEIR_SAFETENSORS_BLOCK) {
            s->hash = weir_hash(s->block, s->used, s->hash);
            s->used = 0;
        }
        data += take;
        n -= take;
    }
}

static weir_err work_out_sum(const weir_safetensors_list *l, const char *header, uint64_t *hash)
{
    sum s = {.hash = weir_hash(header, l->length, 0), .block = malloc(WEIR_SAFETENSORS_BLOCK)};

    if (!s.block)
        return weir_fail_nomem(WEIR_SAFETENSORS_BLOCK);
    for (const entry *e = l->first; e; e = e->next)
        for (const piece *p = e->first; p; p = p->next)
            sum_add(&s, p->data, p->bytes);
    *hash = s.used ? weir_hash(s.block, s.used, s.hash) : s.hash;
    free(s.block);
    return WEIR_OK;
}

weir_err weir_safetensors_list_seal(weir_safetensors_list *l, char digits[WEIR_SAFETENSORS_SUM],
                                    uint64_t *bytes)
{
    uint64_t data = 0, hash = 0;
    char *header;

    WEIR_TRY(lay_out(l, &data));
    WEIR_TRY(make_header(l, &header));
    WEIR_TRY(work_out_sum(l, header, &hash));
    snprintf(digits, WEIR_SAFETENSORS_SUM, "%016" PRIx64, hash);
    memcpy(header + strlen(WEIR_SAFETENSORS_SEAL), digits, WEIR_SAFETENSORS_SUM - 1);
    l->header = header;
    *bytes = 8 + l->length + data;
    return WEIR_OK;
}

weir_err weir_safetensors_write(const weir_safetensors_list *l, weir_file *f)
{
    unsigned char length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)l->length >> 8 * i);
    WEIR_TRY(weir_file_write(f, length, sizeof length));
    WEIR_TRY(weir_file_write(f, l->header, l->length));
    for (const entry *e = l->first; e; e = e->next)
        for (const piece *p = e->first; p; p = p->next)
            WEIR_TRY(weir_file_write(f, p->data, p->bytes));
    return WEIR_OK;
}
