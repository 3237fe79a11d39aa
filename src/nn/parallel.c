/* parallel.c - the door to OpenMP. Its functions are called by name: clang without its own runtime
 * brings no omp.h, and with its own would bring a second runtime beside the one that oneDNN runs
 * on. */
#include "nn/parallel.h"
#include <stdatomic.h>

extern void omp_set_num_threads(int);
extern int omp_get_max_threads(void);
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);
extern void GOMP_parallel(void (*fn)(void *), void *arg, unsigned threads, unsigned flags);

/* begun and ended say once more what the runtime's barriers say: tools that look for races do not
 * see those. */
typedef struct loop {
    atomic_int begun, ended;
    int64_t n, grain;
    void (*part)(void *, int64_t, int64_t);
    void *arg;
} loop;

static void run(void *arg)
{
    loop *l = arg;
    atomic_load_explicit(&l->begun, memory_order_acquire);
    int64_t grains = (l->n + l->grain - 1) / l->grain, p = omp_get_num_threads(),
            me = omp_get_thread_num();
    int64_t from = grains * me / p * l->grain, to = grains * (me + 1) / p * l->grain;

    if (from < to)
        l->part(l->arg, from, to < l->n ? to : l->n);
    atomic_fetch_add_explicit(&l->ended, 1, memory_order_release);
}

void weir_parallel_for(int64_t n, int64_t grain, void (*part)(void *, int64_t, int64_t), void *arg)
{
    loop l = {.n = n, .grain = grain, .part = part, .arg = arg};
    int64_t grains = (n + grain - 1) / grain, threads = omp_get_max_threads();

    threads = grains < threads ? grains : threads;
    if (threads > 1) {
        atomic_store_explicit(&l.begun, 1, memory_order_release);
        GOMP_parallel(run, &l, (unsigned)threads, 0);
        atomic_load_explicit(&l.ended, memory_order_acquire);
    } else if (n > 0) {
        part(arg, 0, n);
    }
}

void weir_parallel_threads(int threads) { omp_set_num_threads(threads); }

int weir_parallel_alone(void)
{
    int threads = omp_get_max_threads();

    omp_set_num_threads(1);
    return threads;
}

int weir_parallel_slot(void) { return omp_get_thread_num(); }
int weir_parallel_slots(void) { return omp_get_max_threads(); }
