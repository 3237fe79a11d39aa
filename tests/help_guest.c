/* help_guest.c - see help_guest.h. */
#include "help_guest.h"
#include "net/key.h"
#include "net/rank_info.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
#include <zmq.h>
/* after those it needs */
#include <cmocka.h>

char guest_key_a[64], guest_key_b[64];

bool guest_keys_make(void)
{
    snprintf(guest_key_a, sizeof guest_key_a, "/tmp/weir-test-a-%d.key", (int)getpid());
    snprintf(guest_key_b, sizeof guest_key_b, "/tmp/weir-test-b-%d.key", (int)getpid());
    return !weir_key_make(guest_key_a) && !weir_key_make(guest_key_b);
}

void guest_keys_remove(void)
{
    unlink(guest_key_a);
    unlink(guest_key_b);
}

uint64_t guest_tag(uint32_t sequence) { return weir_tag(WEIR_CHANNEL_TEST, sequence, 0); }

weir_err guest_greet(weir_net *n, void *arg)
{
    int me = weir_net_rank(n), x;

    (void)arg;
    for (int p = 0; p < weir_net_size(n); p++)
        WEIR_TRY(weir_net_send_wait(n, p, guest_tag(0), &me, sizeof me));
    for (int p = 0; p < weir_net_size(n); p++) {
        WEIR_TRY(weir_net_recv_wait(n, p, guest_tag(0), &x, sizeof x, NULL));
        CHECK(x == p && weir_net_machine(n, p) == 0);
    }
    return WEIR_OK;
}

static weir_err be_guest(void *arg)
{
    guest *g = arg;

    g->err =
        weir_net_run(g->net ? g->net : "zmq", &g->rank_info, g->fn ? g->fn : guest_greet, NULL);
    snprintf(g->why, sizeof g->why, "%s", g->err ? weir_why_text() : "");
    return WEIR_OK;
}

void guest_invite(guest *g, int rank, int size, const char *at, const char *key, double timeout)
{
    *g = (guest){0};
    ranks_info(&g->rank_info, rank, size, "", timeout);
    ranks_far(&g->rank_info, at, key);
}

void guest_come(guest *g)
{
    assert_int_equal(weir_task_start(weir_rt_threads(), "guest", be_guest, g, &g->task), WEIR_OK);
}

void guest_leave(guest *g, weir_err err, const char *says)
{
    assert_int_equal(weir_task_join(g->task), WEIR_OK);
    if (g->err != err)
        fail_msg("rank %d: %s, not %s: %s", g->rank_info.rank, weir_err_name(g->err),
                 weir_err_name(err), g->why);
    assert_says(g->why, says);
}

void guest_door(const char *at)
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

static atomic_int met;

void guests_meet_anew(void) { atomic_store(&met, 0); }

void guest_has_met(void) { atomic_fetch_add(&met, 1); }

void guests_have_met(int ranks)
{
    for (int k = 0; k < 20000 && atomic_load(&met) < ranks; k++)
        usleep(1000);
    assert_int_equal(atomic_load(&met), ranks);
}
