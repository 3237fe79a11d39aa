/* sample_plan.c - who trains on which sample when: arithmetic only. */
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

weir_err weir_sample_plan_check(const weir_sample_plan *p)
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

uint64_t weir_sample_plan_epoch_steps(const weir_sample_plan *p)
{
    return (p->count - 1) / p->batch + 1;
}

weir_cursor weir_plan_at(const weir_sample_plan *p, uint64_t step)
{
    uint64_t steps = weir_sample_plan_epoch_steps(p);

    return (weir_cursor){.epoch = step / steps, .used = step % steps * p->batch, .rows = p->count};
}

uint64_t weir_sample_plan_samples(const weir_sample_plan *p, weir_cursor at)
{
    uint64_t left = at.rows - at.used;

    return left < p->batch ? left : p->batch;
}

void weir_plan_advance(const weir_sample_plan *p, weir_cursor *at)
{
    at->used += weir_sample_plan_samples(p, *at);
    if (at->used == at->rows)
        *at = (weir_cursor){.epoch = at->epoch + 1, .rows = p->count};
}

weir_cursor weir_plan_last(const weir_sample_plan *p, weir_cursor at)
{
    at.used += (at.rows - at.used - 1) / p->batch * p->batch;
    return at;
}

/* Whole steps come out exact, as schedules are to give the same bits whether a run was resumed or
 * not. */
double weir_plan_time(const weir_sample_plan *p, weir_cursor at)
{
    double steps = (double)weir_sample_plan_epoch_steps(p),
           done = (double)at.used / (double)p->batch;

    if (at.rows != p->count)
        done *= steps / (double)((at.rows - 1) / p->batch + 1);
    return (double)at.epoch * steps + done;
}

void weir_sample_plan_slice(const weir_sample_plan *p, weir_cursor at, int m, uint64_t *first,
                            int *n)
{
    uint64_t all = weir_sample_plan_samples(p, at), size = (uint64_t)p->size,
             rank = (uint64_t)p->rank;
    uint64_t mine = piece_size(all, size, rank);

    *first = piece_first(all, size, rank) + piece_first(mine, (uint64_t)p->micro, (uint64_t)m);
    *n = (int)piece_size(mine, (uint64_t)p->micro, (uint64_t)m);
}

/* A longer step gives no rank less, and the first micro-batch is the largest. */
int weir_sample_plan_room(const weir_sample_plan *p)
{
    uint64_t first;
    int n;

    weir_sample_plan_slice(p, weir_plan_at(p, 0), 0, &first, &n);
    return n;
}

/* A stream is as long as an epoch has steps, and each of its windows waits for its step. */
uint64_t weir_sample_plan_index(const weir_sample_plan *p, weir_cursor at, uint64_t place)
{
    if (p->streams)
        return place * weir_sample_plan_epoch_steps(p) + at.used / p->streams;
    return weir_rng_shuffle(p->seed, at.epoch, at.rows, at.used + place);
}
