/* frame.h - what crosses the wire. Little-endian, as the machines we run on; another order fails the magic.
 *
 * Every message is a head of 48 bytes, and a body of `len` bytes unless that is 0. A head with another magic, version or checksum, an
 * unknown kind, a sender outside the run or a body of another length is not ours: it is dropped, never parsed. */
#ifndef WEIR_NET_FRAME_H
#define WEIR_NET_FRAME_H
#include "net/world.h"

enum { WEIR_FRAME_MAGIC = 0x52494557, WEIR_FRAME_VERSION = 1 }; /* "WEIR" */

typedef struct weir_frame {
    uint32_t magic;
    uint16_t version, kind; /* weir_word */
    int32_t generation;
    uint32_t from;
    uint64_t tag, len;
    uint64_t doing; /* the sender's step << 8 | phase */
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

void weir_frame_make(weir_frame *, weir_word, const weir_net *from, uint64_t tag, size_t len);
void weir_frame_seal(weir_frame *); /* the fields are set: magic, version and checksum follow */
/* `n` bytes that claim to be a head, of a run of `size` ranks: false if they are not. */
bool weir_frame_read(const void *bytes, size_t n, int size, weir_frame *);
/* Bodies that claim to be a greeting or a fault: false if they are not. Texts end, numbers are in range. */
bool weir_hello_read(const void *bytes, size_t n, weir_hello *);
bool weir_cause_read(const void *bytes, size_t n, int size, weir_fault *);
void weir_cause_make(const weir_fault *, weir_cause *);
#endif
