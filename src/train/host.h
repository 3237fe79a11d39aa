/* host.h - for a program that embeds us and computes on threads of its own: the comm side of a
 * process, on a thread of ours.
 *
 * A process is one rank; where the world is simulated it is all of them, and each wants a thread.
 * Such a thread enters, then posts to lines, waits for them, opens trainers and makes steps, as a
 * compute thread of ours would, and leaves. */
#ifndef WEIR_TRAIN_HOST_H
#define WEIR_TRAIN_HOST_H
#include "train/comm.h"

typedef struct weir_host weir_host;

/* Opens the world named by spec, as weir_net_run does; returns when the ranks of this process can
 * be entered. Spec and rank info stay where they are until it is closed. */
weir_err weir_host_open(const char *spec, const weir_rank_info *, weir_host **);
int weir_host_ranks(const weir_host *); /* of this process */
/* The calling thread computes for the k-th of them from now on. [blocks] */
weir_comm *weir_host_enter(weir_host *, int k);
/* It has come to its end; after an error: weir_comm_give_up first. All that it opened is closed. */
void weir_host_leave(weir_host *, int k);
/* All have left. Gives the error of the first that gave up, or of a job that nobody asked for. */
weir_err weir_host_close(weir_host *);
#endif
