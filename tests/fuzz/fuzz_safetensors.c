/* Headers of safetensors files: refused, or every tensor lies inside the data, as large as its
 * shape says, one behind the other. */
#include <stdlib.h>
#include <string.h>
#include "train/safetensors.h"

static void check(const weir_safetensors *st, const weir_safetensors_tensor *t, uint64_t end,
                  size_t n)
{
    uint64_t bytes = weir_safetensors_type_size(t->type);

    for (int i = 0; i < t->dims; i++)
        bytes *= (uint64_t)t->dim[i];
    if (t->at != end || t->bytes != bytes || t->at + t->bytes > n ||
        !weir_safetensors_name_ok(t->name) || weir_safetensors_find(st, t->name) != t)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const weir_safetensors_tensor *t;
    uint64_t end = 0;
    size_t count;
    weir_safetensors *st = NULL;

    weir_err err = weir_safetensors_parse(bytes, n, n, "fuzz", &st);
    if (err) {
        if (err != WEIR_DAMAGED || st || !strstr(weir_why_text(), "fuzz"))
            abort();
        return 0;
    }
    t = weir_safetensors_tensors(st, &count);
    for (size_t i = 0; i < count; end += t[i++].bytes)
        check(st, &t[i], end, n);
    weir_safetensors_text(st, "weir.format");
    if (strlen(weir_safetensors_sum(st)) > WEIR_SAFETENSORS_SUM - 1)
        abort();
    weir_safetensors_close(st);
    return 0;
}
