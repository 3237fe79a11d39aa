/* rank_info.h - which rank am I, and who says so. In this order:
 *
 *   flags      --rank --size --rendezvous
 *   weir       our own launcher: torchrun's variables and WEIR_RUN
 *   torchrun   RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT. Its own store listens at
 *              MASTER_PORT: ranks meet at the port above it
 *   openmpi    OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE: they name no place to meet
 *   pmi        PMI_RANK PMI_SIZE; under Slurm they meet where `slurm` does
 *   slurm      SLURM_PROCID SLURM_NTASKS in a step that srun started; they meet on the step's
 *              first host, at a port by the job's number
 *   alone      this machine alone
 *
 * Whether a launcher has also started MPI is found by its variables (rank_info_mpi.c). What is
 * found is logged as rank_source. */
#ifndef WEIR_NET_PLACE_H
#define WEIR_NET_PLACE_H
#include "net/net.h"

/* rank -1, size 0, rendezvous NULL: no flags. Half of a set of variables or flags is an error that
 * names the missing one. */
weir_err weir_rank_info_find(int rank, int size, const char *rendezvous, weir_rank_info *);

/* Ranks that our launcher starts on this machine meet at HOST:PORT, where others may join them:
 * what it told of them, changed. */
weir_err weir_rank_info_open(const char *rendezvous, weir_rank_info *);

/* No rank yet: one that joins the run at HOST:PORT. */
weir_err weir_rank_info_join(const char *at, weir_rank_info *);
/* One that others have gone on without, and that joins them as a new one; false: nobody can. doors:
 * as weir_net_doors writes them. */
bool weir_rank_info_again(const weir_rank_info *was, const char *doors, weir_rank_info *);

/* For rank_info*.c: a variable's number, and how many ranks a run may have. */
enum { WEIR_RANKS_MAX = 1 << 20 };
weir_err weir_rank_info_number(const char *name, const char *text, long least, long most, int *out);
/* rank_info_mpi.c: if an MPI launcher's variables are there, sets p->mpi; a rank info they do not
 * agree with is refused, naming both. */
weir_err weir_rank_info_mpi(weir_rank_info *);
/* rank_info_slurm.c: where and as which job ranks of a step meet, and how many of them are here;
 * what is not told is left as it is. */
weir_err weir_rank_info_slurm(weir_rank_info *);
/* The first host of a list such as "node[07-09,12],other": false if it names none that fits. */
bool weir_slurm_first_host(const char *list, char *host, size_t room);
/* Tasks on node `index` by a list such as "2(x3),1"; 0: it does not say. */
int weir_slurm_tasks(const char *list, int index);
#endif
