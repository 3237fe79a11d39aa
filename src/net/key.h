/* key.h - the cluster's key: who knows it may join.
 *
 * All ranks of all of a user's runs share one CURVE key pair; the file holds its secret half as
 * text, from which the other half follows. A rank that listens shows that it knows the key, and
 * lets in only those whose own key it is: nothing that comes before that is parsed by us. The file
 * is its owner's alone. Keys are never printed, logged, kept in a run's config or given on a
 * command line: there and in WEIR_KEY stands the file's name. */
#ifndef WEIR_NET_KEY_H
#define WEIR_NET_KEY_H
#include "core/err.h"

typedef struct weir_key {
    char secret[41], open[41]; /* 40 characters each, Z85 */
} weir_key;

/* Draws a key and writes it to a new file of mode 0600; one that exists is left as it is
 * (WEIR_USAGE). */
weir_err weir_key_make(const char *path);
/* WEIR_DENIED: the file is not there, others can read it, it belongs to somebody else, or it holds
 * no key. */
weir_err weir_key_read(const char *path, weir_key *);
void weir_key_wipe(weir_key *);
#endif
