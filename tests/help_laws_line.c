/* help_laws_line.c - the lines of a rank's comm task (train/comm.h): they do not hold each other
 * up, and outlive the errors of their jobs. */
#include "help_laws.h"
#include "train/comm.h"
#include <stdatomic.h>
#include <string.h>

/* What a rank of these laws has. */
typedef struct bench {
    weir_net *net;
    weir_err (*play)(weir_comm *, struct bench *);
    bool swapped; /* the second line takes the first one's part */
    int done;     /* jobs that only count */
} bench;

static weir_err play(weir_comm *comm, void *arg) { return ((bench *)arg)->play(comm, arg); }

static void close_nothing(void *arg) { (void)arg; }

static weir_err on_lines(weir_net *n, weir_err (*fn)(weir_comm *, bench *), const void *worth)
{
    bench b = {.net = n, .play = fn, .swapped = *(const double *)worth > 0};

    return weir_comm_run(n, &(weir_compute){play, close_nothing, &b});
}

/* ---- jobs ---- */

static weir_err count(void *arg)
{
    ((bench *)arg)->done++;
    return WEIR_OK;
}

static weir_err fail(void *arg)
{
    (void)arg;
    return weir_fail(WEIR_DISK, "a job has failed");
}

static weir_err hear(weir_net *n, int peer)
{
    int x;

    WEIR_TRY(weir_net_recv_wait(n, peer, law_tag(1, 0), &x, sizeof x, NULL));
    CHECK(x == peer);
    return WEIR_OK;
}

static weir_err tell(weir_net *n, int peer)
{
    int me = weir_net_rank(n);

    return weir_net_send_wait(n, peer, law_tag(1, 0), &me, sizeof me);
}

static weir_err hear_0(void *net) { return hear(net, 0); }
static weir_err hear_1(void *net) { return hear(net, 1); }
static weir_err hear_2(void *net) { return hear(net, 2); }
static weir_err tell_0(void *net) { return tell(net, 0); }
static weir_err tell_1(void *net) { return tell(net, 1); }

/* ---- two lines that wait for different peers ---- */

/* Rank 0 waits for 1 on one line and for 2 on another; 1 does not speak before it has heard that 2
 * has. */
static weir_err wait_for_two(weir_comm *comm, bench *b)
{
    weir_line *other, *line = weir_comm_line(comm);

    if (weir_net_rank(b->net) == 2)
        return weir_line_call(line, tell_0, b->net);
    if (weir_net_rank(b->net) == 1) {
        WEIR_TRY(weir_line_post(line, hear_0, b->net));
        return weir_line_call(line, tell_0, b->net);
    }
    WEIR_TRY(weir_line_open(comm, "other", &other));
    WEIR_TRY(weir_line_post(b->swapped ? other : line, hear_1, b->net));
    WEIR_TRY(weir_line_post(b->swapped ? line : other, hear_2, b->net));
    WEIR_TRY(weir_line_call(b->swapped ? line : other, tell_1, b->net));
    return weir_line_call(b->swapped ? other : line, count, b);
}

static weir_err lines_apart(weir_net *n, void *worth) { return on_lines(n, wait_for_two, worth); }

/* ---- a job fails ---- */

/* What two ranks do on a line that works. */
static weir_err talk(bench *b, weir_line *line)
{
    bool first = weir_net_rank(b->net) == 0;

    WEIR_TRY(weir_line_post(line, first ? tell_1 : hear_0, b->net));
    return weir_line_call(line, first ? hear_1 : tell_0, b->net);
}

static weir_err fail_and_go_on(weir_comm *comm, bench *b)
{
    weir_line *other, *line = weir_comm_line(comm), *bad;

    WEIR_TRY(weir_line_open(comm, "other", &other));
    bad = b->swapped ? other : line;
    for (int k = 1; k <= 3; k++) {
        int before = b->done;
        weir_line *good = b->swapped ? line : other;
        WEIR_TRY(weir_line_post(bad, count, b));
        WEIR_TRY(weir_line_post(bad, fail, b));
        WEIR_TRY(weir_line_post(bad, count, b)); /* skipped, as are those below */
        CHECK(weir_line_call(bad, count, b) == WEIR_DISK);
        CHECK(!strcmp(weir_why_text(), "a job has failed"));
        CHECK(weir_line_call(bad, fail, b) == WEIR_DISK); /* until it is cleared */
        CHECK(b->done == before + 1);
        WEIR_TRY(talk(b, good)); /* no concern of the other line's */
        weir_line_clear(bad);
        WEIR_TRY(talk(b, bad));
        WEIR_TRY(weir_line_call(bad, count, b));
        CHECK(b->done == before + 2);
    }
    return WEIR_OK;
}

static weir_err line_fails(weir_net *n, void *worth) { return on_lines(n, fail_and_go_on, worth); }

/* Nobody has asked what became of it: the run has failed all the same, with its sentence. */
static weir_err post_and_end(weir_comm *comm, bench *b)
{
    weir_line *other = weir_comm_line(comm);

    if (b->swapped)
        WEIR_TRY(weir_line_open(comm, "other", &other));
    return weir_line_post(other, fail, b);
}

static weir_err line_error_is_told(weir_net *n, void *worth)
{
    weir_err err = on_lines(n, post_and_end, worth);

    CHECK(err == WEIR_DISK && !strcmp(weir_why_text(), "a job has failed"));
    return err;
}

/* ---- more jobs than a line holds ---- */

enum { ROOM = 1024 };

/* A job waits for a word from the other rank, which does not come before the line is full. */
static weir_err fill_a_line(weir_comm *comm, bench *b)
{
    weir_line *other, *line = weir_comm_line(comm);

    WEIR_TRY(weir_line_open(comm, "other", &other));
    if (weir_net_rank(b->net) == 1) {
        WEIR_TRY(weir_line_call(line, hear_0, b->net));
        return weir_line_call(line, tell_0, b->net);
    }
    WEIR_TRY(weir_line_post(line, hear_1, b->net));
    for (int k = 1; k < ROOM; k++)
        WEIR_TRY(weir_line_post(line, count, b));
    CHECK(weir_line_post(line, count, b) == WEIR_FAILED && strstr(weir_why_text(), "full"));
    CHECK(weir_line_call(line, count, b) == WEIR_FAILED);
    WEIR_TRY(weir_line_call(other, tell_1, b->net));
    weir_line_clear(line); /* it finds room in any case */
    CHECK(b->done == ROOM - 1);
    return weir_line_call(line, count, b);
}

static weir_err line_is_full(weir_net *n, void *worth) { return on_lines(n, fill_a_line, worth); }

/* ---- one side gives up while lines wait ---- */

/* What will never come is waited for on two lines: giving up ends both, and the sentence is of the
 * cause. */
static weir_err give_up_waiting(weir_comm *comm, bench *b)
{
    weir_line *other;

    WEIR_TRY(weir_line_open(comm, "other", &other));
    WEIR_TRY(weir_line_post(other, hear_0, b->net));
    WEIR_TRY(weir_line_post(weir_comm_line(comm), hear_0, b->net));
    return weir_fail(WEIR_NAN, "what was computed is no number");
}

static weir_err lines_given_up(weir_net *n, void *worth)
{
    weir_err err = on_lines(n, give_up_waiting, worth);

    CHECK(err == WEIR_NAN && !strcmp(weir_why_text(), "what was computed is no number"));
    return err;
}

const law laws_line[] = {
    {"lines_apart", 3, lines_apart, .timeout = 5, .stall = 5},
    {"lines_apart_swapped", 3, lines_apart, .timeout = 5, .stall = 5, .worth = 1},
    {"line_fails", 2, line_fails},
    {"line_fails_swapped", 2, line_fails, .worth = 1},
    {"line_error_is_told", 1, line_error_is_told, .leaves = 1},
    {"line_error_is_told_swapped", 1, line_error_is_told, .leaves = 1, .worth = 1},
    {"line_is_full", 2, line_is_full},
    {"lines_given_up", 2, lines_given_up, .leaves = 3},
    {0},
};
