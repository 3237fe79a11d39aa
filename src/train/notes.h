/* notes.h - small sums that ride behind the last bucket of a step, for nothing: each rank writes
 * its own, and the exchange leaves there what all of them come to.
 *
 * Bytes go as three floats of 14 bits each, exact for up to 1,024 workers; they are of the step
 * before, as those of a step are known only when it is over. */
#ifndef WEIR_TRAIN_NOTES_H
#define WEIR_TRAIN_NOTES_H
#include "exchange/exchange.h"

/* What one rank adds. */
typedef struct weir_notes {
    double loss;             /* its part of the step's mean */
    int stop;                /* the signal it was told to stop by; 0: none */
    bool leaves;             /* it alone was told, it seems: it wants to leave */
    bool guests;             /* somebody waits at its door */
    uint64_t sent, received; /* bytes, of its last step */
} weir_notes;
/* `note`: WEIR_EXCHANGE_NOTES floats. `exact` (NULL: none): the same in double, where sums are
 * taken so. */
void weir_notes_write(const weir_notes *, float *note, double *exact);

/* What all came to. */
typedef struct weir_noted {
    double loss;
    int stop;                /* one that some rank was told to stop by, the same on all; 0: none */
    int told, leave, guests; /* how many were told to stop, want to leave, have guests */
    double sent, received;
} weir_noted;
weir_noted weir_notes_read(const float *note);
#endif
