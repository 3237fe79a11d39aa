/* share.c - the door to OpenMP. Its functions are called by name: clang without its own runtime brings no omp.h, and with its own
 * would bring a second runtime beside the one that oneDNN runs on. */
#include "nn/share.h"

extern void omp_set_num_threads(int);
extern int omp_get_max_threads(void);
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);
extern void GOMP_parallel(void (*fn)(void *), void *arg, unsigned threads, unsigned flags);

typedef struct loop {
    int64_t n, grain;
    void (*part)(void *, int64_t, int64_t);
    void *arg;
} loop;

static void run(void *arg)
{
    const loop *l = arg;
    int64_t grains = (l->n + l->grain - 1) / l->grain, p = omp_get_num_threads(), me = omp_get_thread_num();
    int64_t from = grains * me / p * l->grain, to = grains * (me + 1) / p * l->grain;

    if (from < to)
        l->part(l->arg, from, to < l->n ? to : l->n);
}

void weir_share(int64_t n, int64_t grain, void (*part)(void *, int64_t, int64_t), void *arg)
{
    loop l = {n, grain, part, arg};
    int64_t grains = (n + grain - 1) / grain, threads = omp_get_max_threads();

    threads = grains < threads ? grains : threads;
    if (threads > 1)
        GOMP_parallel(run, &l, (unsigned)threads, 0);
    else if (n > 0)
        part(arg, 0, n);
}

void weir_share_threads(int threads) { omp_set_num_threads(threads); }

int weir_share_slot(void) { return omp_get_thread_num(); }
int weir_share_slots(void) { return omp_get_max_threads(); }
