/* fuzz_model.c - model files: parsing, expressions, repeats, options and shapes of arbitrary bytes;
 * nothing is bound. The first bytes choose the data's shape, and whether the first line is a list
 * of changed sizes. */
#include "nn/graph.h"
#include <stdlib.h>
#include <string.h>

static weir_model_input choose_input(const uint8_t *d)
{
    weir_model_input in = {.dims = 1 + (d[0] & 3),
                           .classes = 1 + d[1],
                           .tokens = (d[0] & 0x70) == 0x70,
                           .kind = (d[0] >> 2 & 3) % 3};

    for (int i = 0; i < in.dims; i++)
        in.dim[i] = 1 + (d[2] >> (2 * i) & 3) * 9;
    return in;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    weir_arena *arena;
    weir_graph *g = NULL;
    weir_model_input in;
    char *sizes = NULL;
    size_t head = 3;

    if (n < 3 || !(arena = weir_arena_new()))
        return 0;
    in = choose_input(data);
    if (data[0] & 0x80) {
        const uint8_t *end = memchr(data + 3, '\n', n - 3);
        head = end ? (size_t)(end - data) + 1 : n;
        sizes = strndup((const char *)data + 3, head - 3);
        sizes[strcspn(sizes, "\n")] = 0;
    }
    weir_netfile_source source = {"fuzz.net", (const char *)data + head, n - head, sizes};
    if (!weir_graph_read(&source, &in, true, arena, &g)) {
        size_t at = 0;
        for (int i = 0; i < g->tensors; at += g->tensor[i++].n)
            if (g->tensor[i].at != at || !g->tensor[i].n)
                abort();
        if (at != g->params)
            abort();
    }
    free(sizes);
    weir_arena_free(arena);
    return 0;
}
