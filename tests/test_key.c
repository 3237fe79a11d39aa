/* test_key.c - who may take part: keys, their files, and runs without one. */
#include "help_guest.h"
#include "net/key.h"
#include "net/rank_info.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>
/* after those it needs */
#include <cmocka.h>

/* as in test_net_loss.c */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void) { return "leak:libzmq.so\n"; }

static void test_wrong_keys(void **state)
{
    guest g[2], wrong, none;
    char at[32];

    (void)state;
    ranks_port(at);
    for (int i = 0; i < 2; i++)
        guest_invite(&g[i], i, 2, at, guest_key_a, 20);
    guest_come(&g[0]);
    guest_door(at);
    guest_invite(&wrong, 1, 2, at, guest_key_b, 10);
    guest_come(&wrong);
    guest_leave(&wrong, WEIR_DENIED, "is not the run's");
    assert_says(wrong.why, guest_key_b);
    guest_invite(&none, 1, 2, at, NULL, 10);
    guest_come(&none);
    guest_leave(&none, WEIR_DENIED, "the run has a key");
    guest_come(&g[1]);
    for (int i = 0; i < 2; i++)
        guest_leave(&g[i], WEIR_OK, "");
    ranks_port(at);
    guest_invite(&g[0], 0, 2, at, NULL, 3); /* the other way round: the run has none */
    guest_come(&g[0]);
    guest_invite(&wrong, 1, 2, at, guest_key_b, 10);
    guest_come(&wrong);
    guest_leave(&wrong, WEIR_DENIED, "or the run has none");
    guest_leave(&g[0], WEIR_SILENT, "rank 1 of 2 has not come");
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
        guest_invite(&g[i], i, 2, at, guest_key_a, 20);
    guest_come(&g[0]);
    void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER),
         *m = zmq_socket(context, ZMQ_PAIR);
    assert_int_equal(weir_key_read(guest_key_a, &key), WEIR_OK);
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
    guest_come(&g[1]);
    for (int i = 0; i < 2; i++)
        guest_leave(&g[i], WEIR_OK, "");
}

static void test_key_files(void **state)
{
    weir_key a, b;
    char path[96], text[128] = "";
    struct stat st;
    FILE *f;

    (void)state;
    assert_int_equal(stat(guest_key_a, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(weir_key_make(guest_key_a), WEIR_USAGE); /* not over one that is there */
    assert_int_equal(weir_key_read(guest_key_a, &a), WEIR_OK);
    assert_int_equal(weir_key_read(guest_key_b, &b), WEIR_OK);
    assert_true(strlen(a.secret) == 40 && strlen(a.open) == 40 && strcmp(a.secret, b.secret));
    snprintf(path, sizeof path, "%s.copy", guest_key_a);
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
    guest_invite(&g, 0, 2, "192.0.2.1:29500", NULL, 1); /* an address for documentation: nobody's */
    guest_come(&g);
    guest_leave(&g, WEIR_DENIED, "needs a key");
    assert_says(g.why, "weir keygen");
    guest_invite(&g, 0, 2, "192.0.2.1:29500", NULL, 1);
    g.rank_info.insecure = true;
    guest_come(&g);
    guest_leave(&g, WEIR_MISFIT, "192.0.2.1, which is no address of this machine");
    /* a launcher tells that two of the four are elsewhere */
    guest_invite(&g, 0, 4, "127.0.0.1:29500", NULL, 1);
    strcpy(g.rank_info.source, "torchrun");
    g.rank_info.local_size = 2;
    guest_come(&g);
    guest_leave(
        &g, WEIR_MISFIT,
        "is the loopback address 127.0.0.1 here, but only 2 of the 4 ranks are on this machine");
    guest_invite(&g, 0, 2, "no.such.host.invalid:29500", NULL, 1);
    guest_come(&g);
    guest_leave(&g, WEIR_USAGE, "no.such.host.invalid");
}

/* ---- every port is locked ---- */

static weir_err a_while(weir_net *n, void *arg)
{
    (void)arg;
    guest_has_met();
    WEIR_TRY(weir_net_spend(n, 2));
    return guest_greet(n, NULL);
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
    guests_meet_anew();
    for (int i = 0; i < 3; i++) {
        guest_invite(&g[i], i, 3, at, guest_key_a, 20);
        g[i].fn = a_while;
        guest_come(&g[i]);
    }
    guests_have_met(3);
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
        guest_leave(&g[i], WEIR_OK, "");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_files),
        cmocka_unit_test(test_wrong_keys),
        cmocka_unit_test(test_stranger_that_knows_the_open_half),
        cmocka_unit_test(test_closed_by_default),
        cmocka_unit_test(test_every_port_is_locked),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    /* libzmq's own set-up, which threads must not run at the same time, happens here once */
    void *keep = zmq_ctx_new();
    if (!guest_keys_make())
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    guest_keys_remove();
    zmq_ctx_term(keep);
    return failed;
}
