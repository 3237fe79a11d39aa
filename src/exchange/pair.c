/* pair.c - see pair.h. */
#include "exchange/pair.h"

weir_err weir_pair_make(weir_pair *p, const float *grad, size_t n, weir_arena *arena)
{
    p->now = weir_alloc_beside(arena, n * sizeof(float), grad);
    p->next = weir_alloc_beside(arena, n * sizeof(float), grad);
    return p->now && p->next ? WEIR_OK : weir_fail_nomem(2 * n * sizeof(float));
}

void weir_pair_commit(weir_pair *p)
{
    float *old = p->now;

    if (!p->fresh)
        return;
    p->now = p->next;
    p->next = old;
    p->fresh = false;
}
