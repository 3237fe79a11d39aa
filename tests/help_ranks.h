/* help_ranks.h - ranks for tests: as threads of this process, or as processes that run this program
 * again. */
#ifndef WEIR_HELP_RANKS_H
#define WEIR_HELP_RANKS_H
#include "net/net.h"
#include <sys/types.h>

/* In a rank's function, where cmocka's own assertions may not be used: they jump, and only on the
 * main thread. */
#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition))                                                                       \
            return weir_fail(WEIR_FAILED, "%s:%d: not so: %s", __FILE__, __LINE__, #condition); \
    } while (0)

enum { RANKS_MAX = 20 };

typedef struct ranks {
    const char *net; /* spec; NULL: ranks_world */
    int size;
    double timeout, stall;
    struct weir_board *board;
    weir_err (*fn)(weir_net *, void *);
    void *arg;
    /* out, per rank */
    weir_err err[RANKS_MAX];
    char why[RANKS_MAX][512];
    char dir[64]; /* the run's directory; gone again */
    /* of a simulated run: what the whole came to, and when its last rank ended */
    weir_err all;
    char all_why[1024];
    double seconds;
} ranks;

/* Not NULL: ranks meet at a rendezvous on loopback, with the key of that file ("": with none), and
 * the spec is that of a world over tcp. */
extern const char *ranks_key;

/* The world that is tested, set by a test's main. */
extern const char *ranks_world;

void ranks_dir(char dir[64]); /* a name that is free */
void ranks_port(char at[32]); /* 127.0.0.1 and a port that is free */
/* of a rank that meets the others at a rendezvous instead; key NULL or "": none */
void ranks_far(weir_rank_info *, const char *at, const char *key);
void ranks_info(weir_rank_info *, int rank, int size, const char *dir, double timeout);
void ranks_run(ranks *); /* all as threads; in a simulated world as it has them */
bool ranks_simulated(const char *spec);
/* runs, and fails the test with the first sentence unless all did well */
void ranks_all_ok(ranks *);

/* A child that runs this program with these arguments (after its name, NULL at the end); `out` is
 * all it prints. */
typedef struct child {
    pid_t pid;
    int out;
    char text[16384];
    size_t len;
} child;
void child_start(child *, char *const *args);
bool child_says(child *, const char *word, double seconds); /* reads until the word is there */
bool child_more(child *, double seconds);                   /* reads once */
/* its status as of wait(2), all it has said in text; -1: it had to be killed */
int child_end(child *, double seconds);
double seconds_now(void);
void assert_says(const char *text, const char *part); /* the one holds the other */
#endif
