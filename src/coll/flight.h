/* flight.h - the last collectives of a rank, kept for the hour when one of them does not come
 * back. */
#ifndef WEIR_COLL_FLIGHT_H
#define WEIR_COLL_FLIGHT_H
#include "net/net.h"
#include <stdio.h>

enum { WEIR_LEGS = 32 };

typedef struct weir_leg {
    const char *coll, *verb;
    uint32_t turn;
    size_t bytes;
    double began, ended; /* ended 0: under way */
    weir_err err;
} weir_leg;

/* A group that points to one has its collectives recorded there. */
typedef struct weir_flight {
    uint64_t legs; /* so far; the last WEIR_LEGS of them are kept */
    weir_leg leg[WEIR_LEGS];
} weir_flight;

/* NULL: nobody records */
weir_leg *weir_flight_begin(weir_group *, const char *coll, const char *verb, size_t bytes);
weir_err weir_flight_end(weir_group *, weir_leg *, weir_err);
/* A line each, oldest first; how long ago they began, by this clock. */
void weir_flight_write(const weir_flight *, double now, FILE *);
#endif
