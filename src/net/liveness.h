/* liveness.h - between liveness.c and liveness_meet.c: what is known of peers. */
#ifndef WEIR_NET_LIVENESS_H
#define WEIR_NET_LIVENESS_H
#include "net/world.h"

typedef struct peer {
    char host[64];
    int pid;
    uint64_t doing;      /* as last told */
    double heard, moved; /* last sign of life; last sign that it got on */
    bool hello, welcome, bye;
} peer;

typedef struct weir_liveness {
    /* meet: how long all may take to greet each other */
    double timeout, stall, meet, beat, clock, next_beat;
    double last_beat;
    uint64_t shown; /* what we were doing at the last beat */
    int hellos, welcomes;
    bool met; /* all that began the run have greeted each other */
    char host[64];
    char misfit[160]; /* why we cannot run together; "" */
    weir_net_task *waiter;
    const weir_fault *leaving; /* why we leave, for those who still come; NULL: we stay */
    peer *peer;
} weir_liveness;

/* Blocks the running fibre until something has happened to a peer. */
void weir_liveness_watch(weir_net *, double deadline);
void weir_liveness_tell_cause(weir_net *, int peer, const weir_fault *);
#endif
