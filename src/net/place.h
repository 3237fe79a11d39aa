/* place.h - which rank am I, and who says so. In this order: flags; RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT (torchrun, and our own
 * launcher, which also sets WEIR_RUN); OMPI_COMM_WORLD_*, PMI_*, PMIX_RANK (those who start MPI programs); else this machine alone. What is
 * found is logged as rank_source. */
#ifndef WEIR_NET_PLACE_H
#define WEIR_NET_PLACE_H
#include "net/net.h"

/* rank -1, size 0, rendezvous NULL: no flags. Half of a set of variables or flags is an error that names the missing one. */
weir_err weir_place_find(int rank, int size, const char *rendezvous, weir_place *);

enum { WEIR_RANKS_MAX = 1 << 20 };
/* Ranks told by an MPI launcher's variables, if there are any: *found. */
weir_err weir_place_mpi(weir_place *, bool *found);
/* Refuses flags that say something else than an MPI launcher does. */
weir_err weir_place_agrees(const weir_place *);
#endif
