/* safetensors.h - named arrays in a file that Python's safetensors opens as is.
 *
 *   8 bytes    length H of the header, little-endian
 *   H bytes    JSON: {"__metadata__":{text by text},
 *              NAME:{"dtype","shape","data_offsets":[from,to]}, ...},
 *              padded with spaces so that 8 + H is a multiple of 8
 *   the rest   the arrays, in the order of their offsets, without a hole; 8-byte types first, so
 *              that everything is aligned
 *
 * Ours are sealed: the header begins with {"__metadata__":{"weir.checksum":"16 hex
 * digits","weir.format":"1", and the checksum covers every byte of header and data (docs/WIRE.md,
 * Checkpoints). Bytes of a file are hostile: what is wrong with them is WEIR_DAMAGED, in a sentence
 * that names the file. */
#ifndef WEIR_TRAIN_SAFETENSORS_H
#define WEIR_TRAIN_SAFETENSORS_H
#include "core/arena.h"
#include "core/err.h"
#include "core/file.h"

typedef enum {
    WEIR_SAFETENSORS_F32,
    WEIR_SAFETENSORS_F64,
    WEIR_SAFETENSORS_U64,
    WEIR_SAFETENSORS_I64,
    WEIR_SAFETENSORS_U8
} weir_safetensors_type;
enum { WEIR_SAFETENSORS_DIMS = 8, WEIR_SAFETENSORS_NAME = 255, WEIR_SAFETENSORS_SUM = 17 };
#define WEIR_SAFETENSORS_HEADER_MAX 100000000u /* what Python's reader allows */

typedef struct weir_safetensors_tensor {
    const char *name;
    weir_safetensors_type type;
    int dims; /* 0: a single number */
    int64_t dim[WEIR_SAFETENSORS_DIMS];
    uint64_t at, bytes; /* counted from the beginning of the data */
} weir_safetensors_tensor;

const char *weir_safetensors_type_name(weir_safetensors_type);
size_t weir_safetensors_type_size(weir_safetensors_type);
bool weir_safetensors_type_find(const char *name,
                                weir_safetensors_type *); /* false: not one of ours */
/* 1 to WEIR_SAFETENSORS_NAME bytes, no control characters: what may name a tensor or a text, in our
 * files and in those we read. */
bool weir_safetensors_name_ok(const char *name);
/* "10x784", or "1" where there are no dims. */
void weir_safetensors_shape(int dims, const int64_t *dim, char *text, size_t room);

/* ---- writing: list everything, seal, write ---- */

/* Arrays are not copied: what is listed must stay as it is until weir_safetensors_write has
 * returned. The list lives in the arena. */
typedef struct weir_safetensors_list weir_safetensors_list;
weir_safetensors_list *weir_safetensors_list_new(weir_arena *); /* NULL: out of memory */
/* A text of the metadata; copied. Later ones stand behind. */
weir_err weir_safetensors_list_text(weir_safetensors_list *, const char *key, const char *value);
/* `bytes` bytes from byte `at` of the array `like` describes (its `at` and `bytes` are ignored).
 * The pieces of an array come in any order and must cover it once; all name the same type and
 * shape. */
weir_err weir_safetensors_list_add(weir_safetensors_list *, const weir_safetensors_tensor *like,
                                   uint64_t at, const void *data, size_t bytes);
/* Checks the pieces, lays out the file and works out its checksum: nothing may be added
 * afterwards. */
weir_err weir_safetensors_list_seal(weir_safetensors_list *, char sum[WEIR_SAFETENSORS_SUM],
                                    uint64_t *bytes);
weir_err weir_safetensors_write(const weir_safetensors_list *, weir_file *);

/* ---- reading ---- */

typedef struct weir_safetensors weir_safetensors;
/* Opens a file and checks its whole header: offsets, shapes, no hole, no overlap, nothing behind
 * the end. One that is there but may not be opened is WEIR_FAILED. */
weir_err weir_safetensors_open(const char *path, weir_safetensors **);
/* The same of a file of `whole` bytes of which the first `have` are in memory; the header must be
 * among them. Nothing can be read from it afterwards. */
weir_err weir_safetensors_parse(const void *bytes, size_t have, uint64_t whole, const char *what,
                                weir_safetensors **);
void weir_safetensors_close(weir_safetensors *); /* NULL is allowed */
/* Reads the whole file and compares its checksum; one that has none is damaged. Then the format's
 * version: another is WEIR_MISFIT. */
weir_err weir_safetensors_check(weir_safetensors *);
/* The checksum it says it has; "" if none. */
const char *weir_safetensors_sum(const weir_safetensors *);
const char *weir_safetensors_text(const weir_safetensors *,
                                  const char *key); /* of the metadata; NULL: not there */
const weir_safetensors_tensor *weir_safetensors_tensors(const weir_safetensors *, size_t *count);
const weir_safetensors_tensor *weir_safetensors_find(const weir_safetensors *,
                                                     const char *name); /* NULL: not there */
weir_err weir_safetensors_read(const weir_safetensors *, const weir_safetensors_tensor *,
                               uint64_t at, void *to, size_t bytes);

/* ---- the checksum, for both ---- */

enum { WEIR_SAFETENSORS_BLOCK = 1 << 20 }; /* bytes of data that are hashed at once */
/* what a sealed header begins with, up to the digits */
#define WEIR_SAFETENSORS_SEAL "{\"__metadata__\":{\"weir.checksum\":\""
#endif
