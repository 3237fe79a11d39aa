/* frame.h - what crosses the wire. Little-endian, as the machines we run on; another order fails
 * the magic.
 *
 * Every message is a head of 48 bytes, and a body of `len` bytes unless that is 0. A head with
 * another magic, version or checksum, an unknown kind, a sender outside the run or a body of
 * another length is not ours: it is dropped, never parsed. */
#ifndef WEIR_NET_FRAME_H
#define WEIR_NET_FRAME_H
#include "net/address.h"
#include "net/world.h"

enum { WEIR_FRAME_MAGIC = 0x52494557, WEIR_FRAME_VERSION = 1 }; /* "WEIR" */

typedef struct weir_frame {
    uint32_t magic;
    uint16_t version, kind; /* weir_frame_kind */
    int32_t generation;
    uint32_t from;
    uint64_t tag, len;
    uint64_t doing;     /* the sender's step << 8 | phase */
    uint32_t zero, sum; /* sum: low half of the hash of the 44 bytes before it */
} weir_frame;

typedef struct weir_hello {
    uint32_t size; /* of the run, as the sender was told */
    int32_t pid;
    char host[64];
} weir_hello;

typedef struct weir_cause {
    int32_t code, cause, rank, pid, phase, zero;
    uint64_t step;
    double silent;
    char host[64], what[200];
} weir_cause;

void weir_frame_make(weir_frame *, weir_frame_kind, const weir_net *from, uint64_t tag, size_t len);
void weir_frame_seal(weir_frame *); /* the fields are set: magic, version and checksum follow */
/* `n` bytes that claim to be a head, of a run of `size` ranks: false if they are not. */
bool weir_frame_read(const void *bytes, size_t n, int size, weir_frame *);
/* Bodies that claim to be a greeting or a fault: false if they are not. Texts end, numbers are in
 * range. */
bool weir_hello_read(const void *bytes, size_t n, weir_hello *);
bool weir_cause_read(const void *bytes, size_t n, int size, weir_fault *);
void weir_cause_make(const weir_fault *, weir_cause *);

/* ---- the rendezvous: messages of one part between rank 0 and those that come. Their layout never
 * changes, so that programs of unlike versions can tell each other so. ---- */

typedef enum {
    WEIR_MEET_JOIN = 1, /* to rank 0: here I am */
    WEIR_MEET_SEEN,     /* the answer: wait for the others. Nothing but a head */
    WEIR_MEET_TABLE,    /* all are there: this is where */
    WEIR_MEET_NO,       /* or why not */
    WEIR_MEET_KNOCK,    /* to any member, while the run goes on: may I join? Or: I am ready */
    WEIR_MEET_WELCOME,  /* the answer to the first: what a guest has to know */
    WEIR_MEET_ADMIT,    /* to the second: it has a rank, and here are all */
    WEIR_MEETS
} weir_meet;

typedef struct weir_meet_head {
    uint32_t magic;
    uint16_t version, kind; /* weir_meet */
    /* of the whole message; sum: low half of its hash with 0 in this place */
    uint32_t len, sum;
} weir_meet_head;

/* Where a rank is that is reached in the run's own directory, by its pid. */
#define WEIR_MEET_HERE "here"
typedef struct weir_meet_entry { /* a rank, as the table shows it */
    uint64_t machine;            /* weir_net_machine_id */
    int32_t pid, zero;
    char host[64], at[WEIR_ADDRESS_MAX]; /* at: where its links end */
} weir_meet_entry;

typedef struct weir_meet_join {
    weir_meet_head head;
    int32_t rank;
    uint32_t size;
    weir_meet_entry entry;
    char program[32], job[64];
} weir_meet_join;

typedef struct weir_meet_knock {
    weir_meet_head head;
    weir_meet_entry entry;
    uint64_t token; /* drawn by the guest: its name at this door, until it has a rank */
    uint32_t ready, zero;
    char program[32];
} weir_meet_knock;

typedef struct weir_meet_admit {
    weir_meet_head head;
    uint64_t run;
    int32_t rank;
    uint32_t entries, list, zero; /* list: bytes of it (member_message.h), behind the entries */
    weir_meet_entry entry[];
} weir_meet_admit;

typedef struct weir_meet_table {
    weir_meet_head head;
    uint64_t run; /* drawn by rank 0 */
    uint32_t size, zero;
    weir_meet_entry entry[];
} weir_meet_table;

typedef struct weir_meet_refusal {
    weir_meet_head head;
    int32_t code, zero; /* what the one that is refused leaves with */
    char why[400];
} weir_meet_refusal;

/* The fields are set: the head follows. `len`: of the whole message. */
void weir_meet_seal(void *message, weir_meet, size_t len);
/* Which of them `n` bytes are; 0: none. */
weir_meet weir_meet_kind(const void *bytes, size_t n);
/* Texts end (they do afterwards), numbers are in range, its address is such. */
bool weir_meet_entry_good(weir_meet_entry *);
/* False if the bytes are not such a message. Texts end, numbers are in range, addresses are such;
 * `entry` has room for `size`. */
bool weir_meet_join_read(const void *bytes, size_t n, weir_meet_join *);
bool weir_meet_table_read(const void *bytes, size_t n, int size, uint64_t *run,
                          weir_meet_entry *entry);
bool weir_meet_knock_read(const void *bytes, size_t n, weir_meet_knock *);
/* Entries and list stay in the bytes. */
bool weir_meet_admit_read(const void *bytes, size_t n, const weir_meet_admit **);
bool weir_meet_refusal_read(const void *bytes, size_t n, weir_meet_refusal *);
#endif
