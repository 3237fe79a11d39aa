/* mem_place.c - sharing memory by lifetime: largest first, each at the lowest place that nothing
 * alive at the same time occupies. */
#include "nn/engine_plan.h"
#include <stdlib.h>

enum { ALIGN = 64 };

static size_t padded(const weir_mem *m)
{
    size_t bytes = m->room > m->bytes ? m->room : m->bytes;

    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int by_size(const void *a, const void *b)
{
    const weir_mem *x = *(weir_mem *const *)a, *y = *(weir_mem *const *)b;

    if (padded(x) != padded(y))
        return padded(x) > padded(y) ? -1 : 1;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                : (x->last > y->last) - (x->last < y->last);
}

static int by_offset(const void *a, const void *b)
{
    const weir_mem *x = *(weir_mem *const *)a, *y = *(weir_mem *const *)b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

static bool meet(const weir_mem *a, const weir_mem *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* `placed` is sorted by offset: the first gap between those that live when m does. */
static size_t lowest_gap(weir_mem *const *placed, size_t n, const weir_mem *m)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        if (!meet(placed[i], m))
            continue;
        if (placed[i]->offset >= at + padded(m))
            return at;
        if (placed[i]->offset + padded(placed[i]) > at)
            at = placed[i]->offset + padded(placed[i]);
    }
    return at;
}

weir_err weir_mem_place_all(weir_mem *list, size_t *bytes)
{
    size_t count = 0, top = 0, n = 0;
    weir_mem **mem, **placed;

    for (weir_mem *m = list; m; m = m->next)
        count += !m->same;
    if (!(mem = malloc((2 * count + 1) * sizeof *mem)))
        return weir_fail_nomem(2 * count * sizeof *mem);
    placed = mem + count;
    for (weir_mem *m = list; m; m = m->next)
        if (!m->same)
            mem[n++] = m;
    qsort(mem, count, sizeof *mem, by_size);
    for (n = 0; n < count; n++) {
        mem[n]->offset = lowest_gap(placed, n, mem[n]);
        top = mem[n]->offset + padded(mem[n]) > top ? mem[n]->offset + padded(mem[n]) : top;
        placed[n] = mem[n];
        qsort(placed, n + 1, sizeof *placed, by_offset);
    }
    free(mem);
    *bytes = top;
    return WEIR_OK;
}
