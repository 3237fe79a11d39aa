/* peers_inside.h - what peers.c and peers_lost.c know of each other. */
#ifndef WEIR_EXCHANGE_PEERS_INSIDE_H
#define WEIR_EXCHANGE_PEERS_INSIDE_H
#include "exchange/delta.h"
#include "exchange/ledger.h"
#include "exchange/reconcile.h"
#include "exchange/update.h"

typedef struct weir_peers {
    int64_t bound; /* the option */
    weir_exchange_env env;
    weir_net *net;
    weir_update *update;
    weir_mailbox *mailbox; /* NULL: closed, there are no groups */
    weir_delta_writer writer;
    float decay;
    /* clipped before it is sent: no lane leaves before all of the gradient is there */
    bool early;
    bool owns;              /* momentum and decay have been taken over from the optimiser */
    bool begun;             /* since all last agreed */
    uint64_t since, next;   /* the first step since then; the step to come */
    uint64_t deltas, added; /* added: how often weights have moved since then */
    float *notes;           /* by step (2 bound + 2 of them, in turn) and member */
    size_t noted;           /* floats of one member */
    weir_reconcile *equal;
    int generation; /* that this state belongs to */
    /* whose deltas are in the weights; the one that the source of a new list has told */
    weir_ledger ledger, told;
    int agreed; /* the generation of that list */
    float unit; /* of the step that is under way */
} weir_peers;

/* ---- peers.c ---- */
/* Weights move by what was added up in the gradients' memory, in units of this base. */
weir_err weir_peers_move(weir_peers *, uint64_t step, double base, double *norm);
/* What this lane sent in the step that is under way counts; nothing of that step was ever sent. */
void weir_peers_commit_lane(const weir_peers *, weir_lane *);
void weir_peers_drop_step(weir_peers *);

/* ---- peers_lost.c: exchange.h ---- */
weir_err weir_peers_recover(void *self, weir_recovery *);
void weir_peers_catch_up(void *self);
#endif
