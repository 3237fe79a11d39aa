/* state.h - a thing lists its fields once; the io behind reads or writes them, so save and load
 * cannot drift apart.
 *
 *   static weir_err state(void *self, weir_io *io) {
 *       WEIR_TRY(weir_io_floats(io, "momentum", s->m, s->n, WEIR_KEEP_SAME));
 *       return weir_io_u64(io, "steps", &s->steps, WEIR_KEEP_SAME);
 *   }
 * Names are put behind the prefix that weir_io_in set ("optim.conv1.weight."). Reading, a field of
 * another size than the file's is WEIR_DAMAGED; a missing one, unless it may be dropped,
 * WEIR_MISFIT: other settings wrote it. */
#ifndef WEIR_CORE_STATE_H
#define WEIR_CORE_STATE_H
#include "core/err.h"

/* What happens to a field when the run goes on with another number of workers. */
typedef enum {
    WEIR_KEEP_SAME,   /* equal on all workers: everyone takes it */
    WEIR_KEEP_SUM,    /* each worker has a part: summed, then split, so that the sum is conserved */
    WEIR_KEEP_MEAN,   /* averaged */
    WEIR_KEEP_STREAM, /* belongs to a stream of the data, saved by its number */
    WEIR_KEEP_DROP    /* starts anew */
} weir_keep;

/* n floats x, which are those from place `at` on of a field of `whole` floats: a tensor cut over
 * buckets is one field, so that another cut can take it up. Writing, the pieces of a field come in
 * any order and cover it once; reading, any pieces may be asked for. */
typedef struct weir_io_piece {
    float *x;
    size_t at, n, whole;
    weir_keep keep;
} weir_io_piece;

typedef struct weir_io weir_io;
struct weir_io {
    bool loading;
    weir_err (*range)(weir_io *, const char *name, const weir_io_piece *);
    weir_err (*u64)(weir_io *, const char *name, uint64_t *, size_t n, weir_keep);
    char prefix[192];
};

weir_err weir_io_floats(weir_io *, const char *name, float *, size_t n, weir_keep);
weir_err weir_io_range(weir_io *, const char *name, const weir_io_piece *);
weir_err weir_io_u64(weir_io *, const char *name, uint64_t *, weir_keep);
/* Puts `part` and a dot behind the prefix; weir_io_out takes it away again, given what weir_io_in
 * returned. */
size_t weir_io_in(weir_io *, const char *part);
void weir_io_out(weir_io *, size_t mark);
#endif
