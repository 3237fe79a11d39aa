/* flight.h - the last collectives of a rank, kept for the hour when one of them does not come
 * back. */
#ifndef WEIR_COLL_FLIGHT_H
#define WEIR_COLL_FLIGHT_H
#include "net/net.h"
#include <stdio.h>

enum { WEIR_FLIGHT_ENTRIES = 32 };

typedef struct weir_flight_entry {
    const char *coll, *verb;
    uint32_t sequence;
    size_t bytes;
    double began, ended; /* ended 0: under way */
    weir_err err;
} weir_flight_entry;

/* A group that points to one has its collectives recorded there. */
typedef struct weir_flight {
    uint64_t entries; /* so far; the last WEIR_FLIGHT_ENTRIES of them are kept */
    weir_flight_entry entry[WEIR_FLIGHT_ENTRIES];
} weir_flight;

/* NULL: nobody records */
weir_flight_entry *weir_flight_begin(weir_group *, const char *coll, const char *verb,
                                     size_t bytes);
weir_err weir_flight_end(weir_group *, weir_flight_entry *, weir_err);
/* A line each, oldest first; how long ago they began, by this clock. */
void weir_flight_write(const weir_flight *, double now, FILE *);
#endif
