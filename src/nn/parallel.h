/* parallel.h - a loop of ours cut over the threads that oneDNN's kernels use: its OpenMP runtime,
 * so that no core is asked for twice. */
#ifndef WEIR_NN_PARALLEL_H
#define WEIR_NN_PARALLEL_H
#include <stdint.h>

/* Calls part(arg, from, to) for ranges that cover 0..n-1, cut at multiples of `grain`, on several
 * threads at once; small loops stay on this one. How it is cut depends on the number of threads:
 * sums must not depend on it. */
void weir_parallel_for(int64_t n, int64_t grain, void (*part)(void *arg, int64_t from, int64_t to),
                       void *arg);
/* The number of the thread that runs a part, and how many there may be: for memory of a thread's
 * own. */
int weir_parallel_slot(void);
int weir_parallel_slots(void);
/* As weir_model_threads says. */
void weir_parallel_threads(int threads);
/* One thread from here on; returns how many there were, for weir_parallel_threads. */
int weir_parallel_alone(void);
#endif
