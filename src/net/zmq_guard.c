/* zmq_guard.c - who may connect: CURVE on the sockets, and the answers to ZeroMQ's own question
 * (its ZAP protocol: RFC 27) whether one that knows the key's open half, to which it has encrypted,
 * may come in. Only one whose own key it is may. ZeroMQ asks before it takes any message of
 * theirs. */
#include "core/log.h"
#include "net/zmq_link.h"
#include <string.h>
#include <zmq.h>

enum { PARTS = 7, PART = 256, WARNINGS = 10 };
enum { VERSION, ID, DOMAIN_NAME, ADDRESS, IDENTITY, MECHANISM, CREDENTIALS };

weir_err weir_zmq_guard_open(sockets *z, const weir_key *key)
{
    static const char at[] = "inproc://zeromq.zap.01";

    if (!zmq_z85_decode(z->open_key, key->open))
        return weir_zmq_fail("reading", "the key");
    WEIR_TRY(weir_zmq_socket(z, ZMQ_REP, &z->guard));
    if (zmq_bind(z->guard, at))
        return weir_zmq_fail("listening at", at);
    z->poll[WEIR_ZMQ_GUARD].fd = weir_zmq_fd(z->guard);
    return WEIR_OK;
}

weir_err weir_zmq_lock(void *socket, const weir_key *key, bool listens)
{
    int yes = key != NULL;

    if (listens || !key)
        WEIR_TRY(weir_zmq_option(socket, ZMQ_CURVE_SERVER, &yes, sizeof yes));
    if (!key)
        return WEIR_OK;
    WEIR_TRY(weir_zmq_option(socket, ZMQ_CURVE_SECRETKEY, key->secret, 41));
    if (listens)
        return WEIR_OK;
    WEIR_TRY(weir_zmq_option(socket, ZMQ_CURVE_PUBLICKEY, key->open, 41));
    return weir_zmq_option(socket, ZMQ_CURVE_SERVERKEY, key->open, 41);
}

typedef struct question {
    char part[PARTS][PART];
    int len[PARTS];
} question;

/* Reads one; false if there is none. Parts that are missing are empty. */
static bool read_question(void *guard, question *q)
{
    int more = 1;
    size_t size = sizeof more;

    memset(q, 0, sizeof *q);
    for (int i = 0; more; i++) {
        char *room = q->part[i < PARTS ? i : PARTS - 1];
        int n = zmq_recv(guard, room, PART - 1, ZMQ_DONTWAIT);
        if (n < 0)
            return false;
        q->len[i < PARTS ? i : PARTS - 1] = n < PART ? n : PART;
        if (zmq_getsockopt(guard, ZMQ_RCVMORE, &more, &size))
            return false;
    }
    return true;
}

static bool welcome(const sockets *z, const question *q)
{
    return !strcmp(q->part[MECHANISM], "CURVE") && q->len[CREDENTIALS] == sizeof z->open_key &&
           !memcmp(q->part[CREDENTIALS], z->open_key, sizeof z->open_key);
}

static void answer(void *guard, const question *q, bool in)
{
    zmq_send(guard, "1.0", 3, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(guard, q->part[ID], (size_t)q->len[ID], ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(guard, in ? "200" : "400", 3, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(guard, in ? "" : "wrong key", in ? 0 : 9, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(guard, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(guard, "", 0, ZMQ_DONTWAIT);
}

void weir_zmq_guard_serve(sockets *z)
{
    question q;

    while (z->guard && read_question(z->guard, &q)) {
        bool in = welcome(z, &q);
        answer(z->guard, &q, in);
        if (!in && z->refused++ < WARNINGS)
            weir_log(WEIR_LOG_WARN, "net",
                     "a process at %.60s was not let in: its key is not this run's",
                     q.part[ADDRESS]);
    }
}
