/* safetensors_type.c - types, shapes and names of arrays in files: for the reader and the
 * writer. */
#include "train/safetensors.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [WEIR_SAFETENSORS_F32] = {"F32", 4}, [WEIR_SAFETENSORS_F64] = {"F64", 8},
    [WEIR_SAFETENSORS_U64] = {"U64", 8}, [WEIR_SAFETENSORS_I64] = {"I64", 8},
    [WEIR_SAFETENSORS_U8] = {"U8", 1},
};

const char *weir_safetensors_type_name(weir_safetensors_type type) { return types[type].name; }
size_t weir_safetensors_type_size(weir_safetensors_type type) { return types[type].size; }

bool weir_safetensors_type_find(const char *name, weir_safetensors_type *type)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(name, types[i].name))
            return *type = (weir_safetensors_type)i, true;
    return false;
}

void weir_safetensors_shape(int dims, const int64_t *dim, char *text, size_t room)
{
    size_t n = 0;

    snprintf(text, room, "1");
    for (int i = 0; i < dims && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%" PRId64, i ? "x" : "", dim[i]);
}

bool weir_safetensors_name_ok(const char *name)
{
    size_t n = 0;

    for (; name[n]; n++)
        if ((unsigned char)name[n] < 0x20 || name[n] == 0x7f)
            return false;
    return n > 0 && n <= WEIR_SAFETENSORS_NAME;
}
