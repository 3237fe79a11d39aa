/* test_net_far.c - the rendezvous: who comes late, twice, not at all, from another run or without
 * the key; keys; and peers that die or stop at the other end of a tcp link. Everything on loopback;
 * between real hosts see docs/CLUSTER.md. */
#include "help_ranks.h"
#include "net/frame.h"
#include "net/key.h"
#include "net/place.h"
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>
/* after those it needs */
#include <cmocka.h>

/* as in test_net_loss.c */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void) { return "leak:libzmq.so\n"; }

static char key_a[64], key_b[64]; /* two keys' files */

/* ---- ranks as threads, each with a place of its own ---- */

typedef struct guest {
    weir_place place;
    const char *net;
    weir_err (*fn)(weir_net *, void *);
    weir_task *task;
    weir_err err;
    char why[512];
} guest;

static uint64_t tag(uint32_t turn) { return weir_tag(WEIR_CHANNEL_TEST, turn, 0); }

/* Everybody says its rank to everybody, and knows who is on its machine: here all are. */
static weir_err greet(weir_net *n, void *arg)
{
    int me = weir_net_rank(n), x;

    (void)arg;
    for (int p = 0; p < weir_net_size(n); p++)
        WEIR_TRY(weir_net_send_wait(n, p, tag(0), &me, sizeof me));
    for (int p = 0; p < weir_net_size(n); p++) {
        WEIR_TRY(weir_net_recv_wait(n, p, tag(0), &x, sizeof x, NULL));
        CHECK(x == p && weir_net_machine(n, p) == 0);
    }
    return WEIR_OK;
}

static weir_err be_guest(void *arg)
{
    guest *g = arg;

    g->err = weir_net_run(g->net ? g->net : "zmq", &g->place, g->fn ? g->fn : greet, NULL);
    snprintf(g->why, sizeof g->why, "%s", g->err ? weir_why_text() : "");
    return WEIR_OK;
}

static void invite(guest *g, int rank, int size, const char *at, const char *key, double timeout)
{
    *g = (guest){0};
    ranks_place(&g->place, rank, size, "", timeout);
    ranks_far(&g->place, at, key);
}

static void come(guest *g)
{
    assert_int_equal(weir_task_start(weir_rt_threads(), "guest", be_guest, g, &g->task), WEIR_OK);
}

static void leave(guest *g, weir_err err, const char *says)
{
    assert_int_equal(weir_task_join(g->task), WEIR_OK);
    if (g->err != err)
        fail_msg("rank %d: %s, not %s: %s", g->place.rank, weir_err_name(g->err),
                 weir_err_name(err), g->why);
    assert_says(g->why, says);
}

/* Waits until somebody listens there. */
static void wait_for_door(const char *at)
{
    void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER),
         *m = zmq_socket(context, ZMQ_PAIR);
    char to[64], address[64];

    snprintf(to, sizeof to, "tcp://%s", at);
    zmq_setsockopt(s, ZMQ_LINGER, &(int){0}, sizeof(int));
    assert_int_equal(zmq_socket_monitor(s, "inproc://m", ZMQ_EVENT_CONNECTED), 0);
    assert_int_equal(zmq_connect(m, "inproc://m"), 0);
    zmq_connect(s, to);
    assert_true(zmq_recv(m, address, sizeof address, 0) >= 0);
    zmq_recv(m, address, sizeof address, 0);
    zmq_socket_monitor(s, NULL, 0);
    zmq_close(s);
    zmq_close(m);
    zmq_ctx_term(context);
}

/* ---- in any order ---- */

static void test_any_order(void **state)
{
    static const char *const nets[] = {"zmq", "zmq:ipc=no"};
    static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};

    (void)state;
    for (int k = 0; k < 12; k++) {
        guest g[4];
        char at[32];
        ranks_port(at);
        for (int i = 0; i < 4; i++)
            invite(&g[i], i, 4, at, k % 2 ? key_a : NULL, 20);
        for (int i = 0; i < 4; i++) {
            guest *next = &g[orders[k / 4][i]];
            next->net = nets[k / 2 % 2];
            come(next);
            usleep(20000); /* early ones wait for rank 0: the order is what is tried, not a race */
        }
        for (int i = 0; i < 4; i++)
            leave(&g[i], WEIR_OK, "");
    }
}

static void test_missing(void **state)
{
    guest g[2];
    char at[32], says[100];

    (void)state;
    ranks_port(at);
    for (int i = 0; i < 2; i++) {
        invite(&g[i], i, 3, at, NULL, 1);
        come(&g[i]);
    }
    snprintf(says, sizeof says, "rank 2 of 3 has not come (waited 1 s at %s)", at);
    for (int i = 0; i < 2; i++) /* both say the same */
        leave(&g[i], WEIR_SILENT, says);
    invite(&g[1], 1, 3, at, NULL, 1); /* the run is over, or has never been */
    come(&g[1]);
    snprintf(says, sizeof says, "rank 0 is not at %s (waited 1 s)", at);
    leave(&g[1], WEIR_SILENT, says);
}

/* ---- who does not belong ---- */

static void test_refused(void **state)
{
    guest g[3], twice, other, job, zero;
    char at[32], says[160];

    (void)state;
    ranks_port(at);
    for (int i = 0; i < 3; i++)
        invite(&g[i], i, 3, at, NULL, 20);
    come(&g[0]);
    wait_for_door(at);
    invite(&other, 1, 2, at, NULL, 5);
    come(&other);
    snprintf(says, sizeof says, "is of another run, of 2 ranks: the one at %s has 3", at);
    leave(&other, WEIR_MISFIT, says);
    invite(&job, 1, 3, at, NULL, 5);
    strcpy(job.place.job, "slurm 12 step 0");
    come(&job);
    leave(&job, WEIR_MISFIT, "is of another run, slurm 12 step 0");
    invite(&zero, 0, 3, at, NULL, 5);
    come(&zero);
    snprintf(says, sizeof says,
             "two processes say they are rank 0: host here, pid %d and host here, pid %d",
             (int)getpid(), (int)getpid());
    leave(&zero, WEIR_MISFIT, says);
    come(&g[1]);
    usleep(200000); /* which of the two came first is not what is tried */
    invite(&twice, 1, 3, at, NULL, 5);
    come(&twice);
    assert_int_equal(weir_task_join(twice.task), WEIR_OK);
    assert_int_equal(twice.err, WEIR_MISFIT);
    assert_says(twice.why, "two processes say they are rank 1: host here, pid ");
    come(&g[2]);
    for (int i = 0; i < 3; i++) /* nothing of that has disturbed the run */
        leave(&g[i], WEIR_OK, "");
}

static atomic_int met;

static void wait_until_met(int ranks)
{
    for (int k = 0; k < 20000 && atomic_load(&met) < ranks; k++)
        usleep(1000);
    assert_int_equal(atomic_load(&met), ranks);
}

static weir_err until_told(weir_net *n, void *arg)
{
    (void)arg;
    atomic_fetch_add(&met, 1);
    if (weir_net_rank(n))
        return weir_net_recv_wait(n, 0, tag(1), NULL, 0, NULL);
    WEIR_TRY(weir_net_spend(n, 1.5));
    return weir_net_send_wait(n, 1, tag(1), NULL, 0);
}

static void test_late(void **state)
{
    guest g[2], late;
    char at[32], says[100];

    (void)state;
    ranks_port(at);
    atomic_store(&met, 0);
    for (int i = 0; i < 2; i++) {
        invite(&g[i], i, 2, at, NULL, 20);
        g[i].fn = until_told;
        come(&g[i]);
    }
    wait_until_met(2);
    invite(&late, 1, 2, at, NULL, 5);
    come(&late);
    snprintf(says, sizeof says, "comes too late: the run at %s has begun", at);
    leave(&late, WEIR_MISFIT, says);
    for (int i = 0; i < 2; i++)
        leave(&g[i], WEIR_OK, "");
}

/* ---- keys ---- */

static void test_wrong_keys(void **state)
{
    guest g[2], wrong, none;
    char at[32];

    (void)state;
    ranks_port(at);
    for (int i = 0; i < 2; i++)
        invite(&g[i], i, 2, at, key_a, 20);
    come(&g[0]);
    wait_for_door(at);
    invite(&wrong, 1, 2, at, key_b, 10);
    come(&wrong);
    leave(&wrong, WEIR_DENIED, "is not the run's");
    assert_says(wrong.why, key_b);
    invite(&none, 1, 2, at, NULL, 10);
    come(&none);
    leave(&none, WEIR_DENIED, "the run has a key");
    come(&g[1]);
    for (int i = 0; i < 2; i++)
        leave(&g[i], WEIR_OK, "");
    ranks_port(at);
    invite(&g[0], 0, 2, at, NULL, 3); /* the other way round: the run has none */
    come(&g[0]);
    invite(&wrong, 1, 2, at, key_b, 10);
    come(&wrong);
    leave(&wrong, WEIR_DENIED, "or the run has none");
    leave(&g[0], WEIR_SILENT, "rank 1 of 2 has not come");
}

/* One that knows the open half of the key, and encrypts to it, but has another key itself: refused
 * before it is heard. */
static void test_stranger_that_knows_the_open_half(void **state)
{
    guest g[2];
    weir_key key;
    char at[32], to[64], open[41], secret[41], event[16], address[64];
    uint16_t what = 0;

    (void)state;
    ranks_port(at);
    for (int i = 0; i < 2; i++)
        invite(&g[i], i, 2, at, key_a, 20);
    come(&g[0]);
    void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER),
         *m = zmq_socket(context, ZMQ_PAIR);
    assert_int_equal(weir_key_read(key_a, &key), WEIR_OK);
    assert_int_equal(zmq_curve_keypair(open, secret), 0);
    zmq_setsockopt(s, ZMQ_LINGER, &(int){0}, sizeof(int));
    zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, key.open, 41);
    zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, open, 41);
    zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, secret, 41);
    assert_int_equal(zmq_socket_monitor(s, "inproc://m",
                                        ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                                            ZMQ_EVENT_HANDSHAKE_FAILED_AUTH),
                     0);
    zmq_connect(m, "inproc://m");
    snprintf(to, sizeof to, "tcp://%s", at);
    zmq_connect(s, to);
    zmq_send(s, "let me in", 9, ZMQ_DONTWAIT);
    assert_int_equal(zmq_recv(m, event, sizeof event, 0), 6);
    zmq_recv(m, address, sizeof address, 0);
    memcpy(&what, event, sizeof what);
    assert_int_equal(what, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
    zmq_socket_monitor(s, NULL, 0);
    zmq_close(s);
    zmq_close(m);
    zmq_ctx_term(context);
    come(&g[1]);
    for (int i = 0; i < 2; i++)
        leave(&g[i], WEIR_OK, "");
}

static void test_key_files(void **state)
{
    weir_key a, b;
    char path[96], text[128] = "";
    struct stat st;
    FILE *f;

    (void)state;
    assert_int_equal(stat(key_a, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(weir_key_make(key_a), WEIR_USAGE); /* not over one that is there */
    assert_int_equal(weir_key_read(key_a, &a), WEIR_OK);
    assert_int_equal(weir_key_read(key_b, &b), WEIR_OK);
    assert_true(strlen(a.secret) == 40 && strlen(a.open) == 40 && strcmp(a.secret, b.secret));
    snprintf(path, sizeof path, "%s.copy", key_a);
    assert_int_equal(weir_key_read(path, &b), WEIR_DENIED);
    assert_int_equal(weir_key_read("/tmp", &b), WEIR_DENIED);
    assert_int_equal(weir_key_make("/tmp/no/such/place"), WEIR_DISK);
    static const char *const bad[] = {
        "", "weir cluster key 1\n",
        "weir cluster key 2\n0123456789012345678901234567890123456789\n",
        "weir cluster key 1\n01234567890123456789012345678901234567\"\"\n",
        "weir cluster key 1\n0123456789012345678901234567890123456789\nmore"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        f = fopen(path, "w");
        fputs(bad[i], f);
        fclose(f);
        chmod(path, 0600);
        assert_int_equal(weir_key_read(path, &b), WEIR_DENIED);
    }
    for (int mode = 0604; mode <= 0640; mode += 0640 - 0604) {
        chmod(path, (mode_t)mode);
        assert_int_equal(weir_key_read(path, &b), WEIR_DENIED);
        snprintf(text, sizeof text, "chmod 600 %s", path);
        assert_says(weir_why_text(), text);
    }
    unlink(path);
}

/* A run that others could reach is closed unless it has a key, or is told to be open. */
static void test_closed_by_default(void **state)
{
    guest g;

    (void)state;
    invite(&g, 0, 2, "192.0.2.1:29500", NULL, 1); /* an address for documentation: nobody's */
    come(&g);
    leave(&g, WEIR_DENIED, "needs a key");
    assert_says(g.why, "weir keygen");
    invite(&g, 0, 2, "192.0.2.1:29500", NULL, 1);
    g.place.insecure = true;
    come(&g);
    leave(&g, WEIR_MISFIT, "192.0.2.1, which is no address of this machine");
    /* a launcher tells that two of the four are elsewhere */
    invite(&g, 0, 4, "127.0.0.1:29500", NULL, 1);
    strcpy(g.place.source, "torchrun");
    g.place.local_size = 2;
    come(&g);
    leave(&g, WEIR_MISFIT,
          "is the loopback address 127.0.0.1 here, but only 2 of the 4 ranks are on this machine");
    invite(&g, 0, 2, "no.such.host.invalid:29500", NULL, 1);
    come(&g);
    leave(&g, WEIR_USAGE, "no.such.host.invalid");
}

/* ---- nonsense at the door ---- */

static void intrude(const char *at, const void *part, size_t len, int parts)
{
    void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER);
    char to[64];

    snprintf(to, sizeof to, "tcp://%s", at);
    zmq_setsockopt(s, ZMQ_LINGER, &(int){300}, sizeof(int));
    zmq_connect(s, to);
    for (int i = 0; i < parts; i++)
        zmq_send(s, part, len, i + 1 < parts ? ZMQ_SNDMORE : 0);
    zmq_close(s);
    zmq_ctx_term(context);
}

static void test_nonsense(void **state)
{
    guest g[2];
    weir_join j = {.rank = 1, .size = 2};
    char at[32], *big = calloc(1, 100000);

    (void)state;
    ranks_port(at);
    for (int i = 0; i < 2; i++)
        invite(&g[i], i, 2, at, NULL, 20);
    come(&g[0]);
    weir_meet_seal(&j, WEIR_MEET_JOIN, sizeof j); /* without an address */
    intrude(at, &j, sizeof j, 1);
    snprintf(j.seat.at, sizeof j.seat.at, "ipc:///tmp/elsewhere");
    weir_meet_seal(&j, WEIR_MEET_JOIN, sizeof j);
    intrude(at, &j, sizeof j, 1);
    intrude(at, &j, sizeof j, 3);
    intrude(at, "", 0, 2);
    intrude(at, big, 100000, 1); /* longer than anything that belongs here */
    free(big);
    come(&g[1]);
    for (int i = 0; i < 2; i++)
        leave(&g[i], WEIR_OK, "");
}

/* ---- every port is locked ---- */

static weir_err a_while(weir_net *n, void *arg)
{
    (void)arg;
    atomic_fetch_add(&met, 1);
    WEIR_TRY(weir_net_spend(n, 2));
    return greet(n, NULL);
}

/* Is this socket, by its inode, one of this process's. */
static bool is_ours(unsigned long inode)
{
    char path[64], link[64], want[64];

    snprintf(want, sizeof want, "socket:[%lu]", inode);
    for (int fd = 3; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, link, sizeof link - 1);
        if (n > 0 && (link[n] = 0, !strcmp(link, want)))
            return true;
    }
    return false;
}

/* The ports of loopback that this process listens at. */
static int our_ports(int *port, int room)
{
    FILE *f = fopen("/proc/net/tcp", "r");
    char line[256];
    unsigned address, at, state;
    unsigned long inode;
    int n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f) && n < room)
        if (sscanf(line, " %*d: %x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %lu", &address, &at,
                   &state, &inode) == 4 &&
            state == 10 && is_ours(inode))
            port[n++] = (int)at;
    fclose(f);
    return n;
}

static int first_event(const char *to, int events)
{
    void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER),
         *m = zmq_socket(context, ZMQ_PAIR);
    char event[16], address[64];
    uint16_t what = 0;

    zmq_setsockopt(s, ZMQ_LINGER, &(int){0}, sizeof(int));
    zmq_setsockopt(m, ZMQ_RCVTIMEO, &(int){10000}, sizeof(int));
    assert_int_equal(zmq_socket_monitor(s, "inproc://m", events), 0);
    zmq_connect(m, "inproc://m");
    zmq_connect(s, to);
    assert_int_equal(zmq_recv(m, event, sizeof event, 0), 6);
    zmq_recv(m, address, sizeof address, 0);
    memcpy(&what, event, sizeof what);
    zmq_socket_monitor(s, NULL, 0);
    zmq_close(s);
    zmq_close(m);
    zmq_ctx_term(context);
    return what;
}

/* The sockets listen at files too, without the key; that must not have opened their ports. */
static void test_every_port_is_locked(void **state)
{
    guest g[3];
    char at[32], to[64];
    int port[16];

    (void)state;
    ranks_port(at);
    atomic_store(&met, 0);
    for (int i = 0; i < 3; i++) {
        invite(&g[i], i, 3, at, key_a, 20);
        g[i].fn = a_while;
        come(&g[i]);
    }
    wait_until_met(3);
    assert_int_equal(our_ports(port, 16), 4); /* the door and one each */
    for (int i = 0; i < 4; i++) {
        snprintf(to, sizeof to, "tcp://127.0.0.1:%d", port[i]);
        int event =
            first_event(to, ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL);
        assert_true(event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
                    event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL);
    }
    for (int i = 0; i < 3; i++)
        leave(&g[i], WEIR_OK, "");
}

/* ---- tcp links that end: ranks as processes ---- */

static weir_err exchange(weir_net *n, void *arg)
{
    static char out[100000], in[100000];
    int me = weir_net_rank(n), size = weir_net_size(n);
    double begun = weir_net_now(n);
    bool ready = false;

    (void)arg;
    for (uint32_t step = 0;; step++) {
        weir_op ops[2], *p[] = {&ops[0], &ops[1]};
        weir_net_phase(n, WEIR_PHASE_EXCHANGE, step);
        weir_net_recv(n, (me + size - 1) % size, tag(step), WEIR_EXACT, in, sizeof in, &ops[0]);
        weir_net_send(n, (me + 1) % size, tag(step), out, sizeof out, &ops[1]);
        weir_err err = weir_net_wait_all(n, ops, 2, 0);
        if (err)
            return weir_net_cancel(n, p, 2), err;
        if (!ready && weir_net_now(n) > begun + 1) /* all have told all what they do */
            ready = printf("ready\n");
    }
}

static int be_rank(char **argv)
{
    weir_place place;
    weir_err err;

    setvbuf(stdout, NULL, _IOLBF, 0);
    ranks_place(&place, atoi(argv[2]), 3, "", atof(argv[5]));
    ranks_far(&place, argv[3], argv[4]);
    err = weir_net_run("zmq:ipc=no", &place, exchange, NULL);
    printf("end: %s\n", weir_why_text());
    fflush(stdout);
    _exit(weir_err_exit(err));
}

static void start_ranks(child *c, const char *key, const char *timeout)
{
    char at[32], rank[16];

    ranks_port(at);
    for (int i = 0; i < 3; i++) {
        snprintf(rank, sizeof rank, "%d", i);
        child_start(&c[i], (char *[]){"rank", rank, at, (char *)key, (char *)timeout, NULL});
    }
    for (int i = 0; i < 3; i++)
        if (!child_says(&c[i], "ready", 60))
            fail_msg("rank %d: %s", i, c[i].text);
}

static void end_rank(child *c, int code, const char *says)
{
    int status = child_end(c, 20);

    assert_says(c->text, says);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static void test_killed(void **state)
{
    const char *repeats = getenv("REPEATS");

    (void)state;
    for (int k = 0; k < (repeats ? atoi(repeats) : 3); k++) {
        child c[3];
        char who[128];
        double t;
        start_ranks(c, k % 2 ? key_a : "", "20");
        usleep((useconds_t)(k * 700 % 5000));
        kill(c[k % 3].pid, SIGKILL);
        t = seconds_now();
        snprintf(who, sizeof who,
                 "end: rank %d (host here, pid %d) ended in phase exchange of step ", k % 3,
                 (int)c[k % 3].pid);
        end_rank(&c[(k + 1) % 3], WEIR_LOST, who);
        end_rank(&c[(k + 2) % 3], WEIR_LOST, who);
        assert_true(seconds_now() - t < 5);
        child_end(&c[k % 3], 5);
    }
}

/* One that had come and died before the others did has a second chance. */
static void test_second_chance(void **state)
{
    guest g[3];
    child c;
    char at[32];

    (void)state;
    ranks_port(at);
    for (int i = 0; i < 3; i++)
        invite(&g[i], i, 3, at, key_a, 20);
    come(&g[0]);
    wait_for_door(at);
    child_start(&c, (char *[]){"rank", "1", at, key_a, "20", NULL});
    usleep(500000); /* it has come */
    kill(c.pid, SIGKILL);
    child_end(&c, 5);
    come(&g[1]);
    come(&g[2]);
    for (int i = 0; i < 3; i++)
        leave(&g[i], WEIR_OK, "");
}

/* All leave at once if rank 0 ends before the last one has come. */
static void test_rank_0_ends_early(void **state)
{
    guest g;
    child c;
    char at[32];
    double t;

    (void)state;
    ranks_port(at);
    child_start(&c, (char *[]){"rank", "0", at, "", "20", NULL});
    invite(&g, 1, 3, at, NULL, 20);
    come(&g);
    wait_for_door(at);
    usleep(500000);
    kill(c.pid, SIGKILL);
    t = seconds_now();
    leave(&g, WEIR_LOST, "ended before all ranks had come");
    assert_true(seconds_now() - t < 5);
    child_end(&c, 5);
}

static void test_stopped(void **state)
{
    child c[3];
    char who[128];

    (void)state;
    start_ranks(c, key_a, "2.5");
    kill(c[1].pid, SIGSTOP);
    snprintf(who, sizeof who, "end: rank 1 (host here, pid %d) was silent for 2.", (int)c[1].pid);
    for (int i = 0; i < 3; i += 2) {
        end_rank(&c[i], WEIR_SILENT, who);
        assert_says(c[i].text,
                    "but its machine answers: it is stopped, last seen in phase exchange of step ");
    }
    kill(c[1].pid, SIGCONT);
    child_end(&c[1], 20);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_files),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_wrong_keys),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_stranger_that_knows_the_open_half),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_closed_by_default),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_every_port_is_locked),
        cmocka_unit_test(test_second_chance),
        cmocka_unit_test(test_rank_0_ends_early),
    };

    if (argc > 5 && !strcmp(argv[1], "rank"))
        return be_rank(argv);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    /* libzmq's own set-up, which threads must not run at the same time, happens here once */
    void *keep = zmq_ctx_new();
    snprintf(key_a, sizeof key_a, "/tmp/weir-test-a-%d.key", (int)getpid());
    snprintf(key_b, sizeof key_b, "/tmp/weir-test-b-%d.key", (int)getpid());
    if (weir_key_make(key_a) || weir_key_make(key_b))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(key_a);
    unlink(key_b);
    zmq_ctx_term(keep);
    return failed;
}
