/* help_shm.h - rooms in shared memory: units of several kinds, buffers inside and outside, and
 * ranks as processes that sum for ever. */
#ifndef WEIR_HELP_SHM_H
#define WEIR_HELP_SHM_H
#include "coll/coll.h"
#include "help_ranks.h"

/* What is summed: floats and doubles, which have a kernel for all at once, and units of an awkward
 * size, which have not. */
typedef struct shm_kind {
    const char *name;
    const weir_sum *sum;
    void (*value)(void *at, int rank, size_t i);
    size_t period; /* of i; 0: none */
} shm_kind;

enum { SHM_WHOLE, SHM_F32, SHM_F64, SHM_ODD, SHM_KINDS };
extern const shm_kind shm_kinds[SHM_KINDS];
/* in (0, 1]: the order of adding shows in the bits */
double shm_fraction(int rank, size_t i);
void shm_fill(const shm_kind *, char *buf, size_t n, int rank);
/* Units [lo, hi) are the sum in the order of the ranks, bit for bit. */
weir_err shm_check(const shm_kind *, const char *buf, size_t lo, size_t hi, int ranks,
                   const char *verb, const char *where);

/* A group of all, and memory that it has in common (in) and has not (out). */
typedef struct room {
    weir_coll_use use;
    weir_group g;
    char *in, *out;
    size_t bytes;
} room;
weir_err room_open(weir_net *, const char *spec, size_t bytes, weir_arena *, room *);

int shm_held(const char *what);                     /* mappings of this process by that name */
int shm_entries(const char *dir, const char *part); /* files there whose name holds `part` */
#endif
