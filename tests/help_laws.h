/* help_laws.h - what every world must do, as programs for ranks. Each rank checks for itself, and
 * returns WEIR_OK if all is as it must be; those marked in `leaves` end with an error of their own
 * as a part of the play. No statics: in a simulated world all ranks share them. test_net_laws.c
 * runs them with ranks as threads, or as the world has them; a world whose ranks are processes runs
 * one law by its name in each. */
#ifndef WEIR_HELP_LAWS_H
#define WEIR_HELP_LAWS_H
#include "help_ranks.h"

typedef struct law {
    const char *name;
    int size;
    weir_err (*fn)(weir_net *, void *);
    unsigned leaves;       /* bit r: rank r ends with an error */
    const char *options;   /* of the world, such as "hold=200000"; NULL: none */
    double timeout, stall; /* 0: as usual */
    double worth;          /* what `fn` is given: a pointer to it */
} law;

/* Ended by name NULL: messages; tasks; lines; losses; and what later work needs of all of them. */
extern const law laws_move[], laws_task[], laws_line[], laws_loss[], laws_later[];
extern const law *const law_tables[]; /* all of these, ended by NULL */
const law *law_find(const char *name);

/* How rank 2 of kill_and_repeat goes, in `worth`; told when, it writes the time there and stays,
 * unless the world kills it. */
enum { LAW_BY_ERROR, LAW_BY_SIGNAL = -1, LAW_TELLS_WHEN = -2 };

/* For the programs. */
static inline uint64_t law_tag(uint32_t sequence, uint32_t part)
{
    return weir_tag(WEIR_CHANNEL_TEST, sequence, part);
}
/* everybody has come here before anybody goes on */
weir_err law_barrier(weir_net *, uint32_t sequence);
void law_fill(unsigned char *at, size_t len, unsigned seed);
bool law_filled(const unsigned char *at, size_t len, unsigned seed);
#endif
