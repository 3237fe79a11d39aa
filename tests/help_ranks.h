/* help_ranks.h - several ranks in one test: threads of this process, each with a net of its own. */
#ifndef HELP_RANKS_H
#define HELP_RANKS_H
#include "net/net.h"

/* Runs fn as `size` ranks of the default world; gives "" if all succeeded, else "rank R: sentence" of the lowest rank whose error is not
 * the loss of another rank. Static memory. */
const char *run_ranks(int size, weir_err (*fn)(weir_net *, void *), void *arg);
#endif
