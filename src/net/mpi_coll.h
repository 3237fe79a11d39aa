/* mpi_coll.h - MPI's own collectives over all ranks of an mpi world, for coll/coll_mpi.c. All
 * [block], through the scheduler: other fibres run meanwhile. On an error MPI is left alone from
 * then on, and with it the buffers. */
#ifndef WEIR_NET_MPI_COLL_H
#define WEIR_NET_MPI_COLL_H
#include "core/bucket.h"
#include "net/net.h"

bool weir_mpi_here(const weir_net *); /* is this an mpi world */
weir_err weir_mpi_allreduce(weir_net *, void *buf, size_t units, const weir_sum *);
/* Units are cut evenly in order of ranks, the longer pieces first, as weir_coll_cut does; a rank is
 * sure of its own piece only. */
weir_err weir_mpi_reduce_scatter(weir_net *, void *buf, size_t units, const weir_sum *);
weir_err weir_mpi_allgather(weir_net *, void *all, const size_t *off, const size_t *len);
weir_err weir_mpi_broadcast(weir_net *, int root, void *buf, size_t bytes);
weir_err weir_mpi_barrier(weir_net *);
#endif
