/* help_guest.h - ranks as threads that come to a rendezvous on loopback, each with a place of its
 * own, and when the test lets them. */
#ifndef WEIR_HELP_GUEST_H
#define WEIR_HELP_GUEST_H
#include "core/task.h"
#include "help_ranks.h"

typedef struct guest {
    weir_rank_info rank_info;
    const char *net;                    /* NULL: zmq */
    weir_err (*fn)(weir_net *, void *); /* NULL: guest_greet */
    weir_task *task;
    weir_err err;
    char why[512];
} guest;

/* Two keys' files, made before the tests of a program and gone after them. */
extern char guest_key_a[64], guest_key_b[64];
bool guest_keys_make(void);
void guest_keys_remove(void);

uint64_t guest_tag(uint32_t sequence);
/* Everybody says its rank to everybody, and knows who is on its machine: here all are. */
weir_err guest_greet(weir_net *, void *);
void guest_invite(guest *, int rank, int size, const char *at, const char *key, double timeout);
void guest_come(guest *);
/* waits for its end, which must be this, with a sentence that holds `says` */
void guest_leave(guest *, weir_err, const char *says);
void guest_door(const char *at); /* waits until somebody listens there */

/* How many have met: their functions count themselves in. */
void guests_meet_anew(void);
void guest_has_met(void);
void guests_have_met(int ranks); /* waits for so many */
#endif
