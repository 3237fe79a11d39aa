/* comm.h - the rank's two halves: one thread computes, and everything that talks to peers is done
 * on the comm thread, in lines.
 *
 * A line is a fibre of the comm thread with a queue of jobs, done in the order posted. Lines do not
 * hold each other up: while a job of one waits for a peer, the others' go on. The first line is the
 * step's; more are opened by whoever needs them (serving others, activations, membership).
 *
 * A job's error ends what its line was doing, and not the line: jobs behind it are skipped, and
 * calls give the error, until whoever computes has decided what to do (leave, repeat, regroup) and
 * clears it. Then the line works as before; but collectives that some ranks have begun and others
 * have not are numbered apart from there on, until a new generation of groups (net/mesh.h) has
 * begun.
 *
 * The compute side is one thread at a time: ours (weir_comm_run), or one of a program that embeds
 * us (host.h). */
#ifndef WEIR_TRAIN_COMM_H
#define WEIR_TRAIN_COMM_H
#include "net/net.h"

typedef struct weir_comm weir_comm;
typedef struct weir_line weir_line;

/* ---- on the compute thread ---- */
weir_net *weir_comm_net(const weir_comm *);
weir_line *weir_comm_line(const weir_comm *); /* the first */
/* One more; it lasts as long as the comm task. */
weir_err weir_line_open(weir_comm *, const char *name, weir_line **);
/* Do this on the comm task, and do not wait. A failure is told by the next call. */
weir_err weir_line_post(weir_line *, weir_err (*fn)(void *), void *arg);
/* The same, and wait for it and all before it. */
weir_err weir_line_call(weir_line *, weir_err (*fn)(void *), void *arg);
/* All that was posted has been done, or skipped after an error; that error is over. */
void weir_line_clear(weir_line *);
/* This side gives up, with `err` and its sentence: peers are told, whatever waits for one ends. On
 * return no job is under way, and the lines are clear: what is taken back before memory goes can be
 * called. The first cause stays. */
void weir_comm_give_up(weir_comm *, weir_err err);

/* ---- on the comm task ---- */
/* In a job that compute waits for: fn runs on the compute thread meanwhile, where it has that
 * thread's helpers. [blocks] */
void weir_line_lend(weir_line *, void (*fn)(void *), void *arg);

/* ---- from beginning to end ---- */
/* What computes. */
typedef struct weir_compute {
    weir_err (*run)(weir_comm *, void *arg);
    /* on the same thread, in any case: frees what run has made. No job uses it any more */
    void (*close)(void *arg);
    void *arg;
} weir_compute;
/* On the rank's first fibre: starts a thread that computes and does its jobs until it has ended;
 * gives its error, or the first of a job that nobody cleared. [blocks] */
weir_err weir_comm_run(weir_net *, const weir_compute *);

/* The same in parts, for whoever brings a thread. On the rank's first fibre: open; serve until the
 * compute side has left, which gives what that gave up with; close, while there is a net. On the
 * compute thread: leave, as the last thing. Free when both have ended. */
weir_err weir_comm_open(weir_net *, weir_comm **);
weir_err weir_comm_serve(weir_comm *);
void weir_comm_close(weir_comm *);
void weir_comm_leave(weir_comm *);
void weir_comm_free(weir_comm *); /* NULL is allowed */
#endif
