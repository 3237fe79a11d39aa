/* address.h - where a rank is reached, and which machine it is on. */
#ifndef WEIR_NET_ADDRESS_H
#define WEIR_NET_ADDRESS_H
#include "core/err.h"

enum { WEIR_ADDRESS_MAX = 80 };

typedef struct weir_address {
    char host[48]; /* in numbers */
    int port;
    bool six, loopback;
} weir_address;

/* What HOST:PORT (an address of version 6 in brackets) means here. A name with several addresses:
 * the first of version 4. */
weir_err weir_address_find(const char *text, weir_address *);
/* This machine's address on the interface that routes to `there`; port 0. */
weir_err weir_address_here(const weir_address *there, weir_address *here);
/* "tcp://10.0.0.1:4711"; port 0: "tcp://10.0.0.1:*", any that is free. */
void weir_address_text(const weir_address *, char text[WEIR_ADDRESS_MAX]);
/* Does text look like what weir_address_text writes, and is it this machine's loopback. */
bool weir_address_good(const char *text, bool *loopback);

/* Makes a connection and holds it for so many milliseconds, without a word. */
void weir_address_knock(const weir_address *there, int ms);

/* Equal on two ranks if they can share memory and a private directory: one boot, one network
 * namespace, one user, one /tmp. */
uint64_t weir_net_machine_id(void);
#endif
