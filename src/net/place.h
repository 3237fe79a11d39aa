/* place.h - which rank am I, and who says so. In this order: flags; RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT (torchrun, and our own
 * launcher, which also sets WEIR_RUN); OMPI_COMM_WORLD_*, PMI_*, PMIX_RANK (those who start MPI programs); else this machine alone. What is
 * found is logged as rank_source. */
#ifndef WEIR_NET_PLACE_H
#define WEIR_NET_PLACE_H
#include "net/net.h"

/* rank -1, size 0, rendezvous NULL: no flags. Half of a set of variables or flags is an error that names the missing one. */
weir_err weir_place_find(int rank, int size, const char *rendezvous, weir_place *);

/* For place*.c: a variable's number, and how many ranks a run may have. */
enum { WEIR_RANKS_MAX = 1 << 20 };
weir_err weir_place_number(const char *name, const char *text, long least, long most, int *out);
/* place_mpi.c: if an MPI launcher's variables are there, sets p->mpi; a place they do not agree with is refused, naming both. */
weir_err weir_place_mpi(weir_place *);
#endif
