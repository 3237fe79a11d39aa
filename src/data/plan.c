/* plan.c - who trains on which sample when: arithmetic only. */
#include "core/rng.h"
#include "data/loader.h"

/* Piece i of `pieces` of n things: the first ones are the larger by one. */
static uint64_t piece_size(uint64_t n, uint64_t pieces, uint64_t i)
{
    return n / pieces + (i < n % pieces);
}
static uint64_t piece_first(uint64_t n, uint64_t pieces, uint64_t i)
{
    return n / pieces * i + (i < n % pieces ? i : n % pieces);
}

weir_err weir_plan_check(const weir_plan *p)
{
    if (!p->count || !p->batch || p->size < 1 || p->rank < 0 || p->rank >= p->size || p->micro < 1)
        return weir_fail(
            WEIR_FAILED,
            "a plan of %llu samples, batch %llu, rank %d of %d, %d micro-batches means nothing",
            (unsigned long long)p->count, (unsigned long long)p->batch, p->rank, p->size, p->micro);
    if (p->streams && (p->streams != p->batch || p->count % p->streams))
        return weir_fail(WEIR_FAILED,
                         "a plan of %llu samples in %llu streams for a batch of %llu means nothing",
                         (unsigned long long)p->count, (unsigned long long)p->streams,
                         (unsigned long long)p->batch);
    if (p->batch > INT32_MAX)
        return weir_fail(WEIR_USAGE, "batch %llu: at most %d was expected",
                         (unsigned long long)p->batch, INT32_MAX);
    return WEIR_OK;
}

uint64_t weir_plan_epoch_steps(const weir_plan *p) { return (p->count - 1) / p->batch + 1; }

/* The first place in its epoch's order. */
static uint64_t step_first(const weir_plan *p, uint64_t step)
{
    return step % weir_plan_epoch_steps(p) * p->batch;
}

uint64_t weir_plan_samples(const weir_plan *p, uint64_t step)
{
    uint64_t left = p->count - step_first(p, step);

    return left < p->batch ? left : p->batch;
}

void weir_plan_share(const weir_plan *p, uint64_t step, int m, uint64_t *first, int *n)
{
    uint64_t all = weir_plan_samples(p, step), size = (uint64_t)p->size, rank = (uint64_t)p->rank;
    uint64_t mine = piece_size(all, size, rank);

    *first = piece_first(all, size, rank) + piece_first(mine, (uint64_t)p->micro, (uint64_t)m);
    *n = (int)piece_size(mine, (uint64_t)p->micro, (uint64_t)m);
}

/* A longer step gives no rank less, and the first micro-batch is the largest. */
int weir_plan_room(const weir_plan *p)
{
    uint64_t first;
    int n;

    weir_plan_share(p, 0, 0, &first, &n);
    return n;
}

/* A stream is as long as an epoch has steps, and each of its windows waits for its step. */
uint64_t weir_plan_index(const weir_plan *p, uint64_t step, uint64_t place)
{
    if (p->streams)
        return place * weir_plan_epoch_steps(p) + step % weir_plan_epoch_steps(p);
    return weir_rng_shuffle(p->seed, step / weir_plan_epoch_steps(p), p->count,
                            step_first(p, step) + place);
}
