/* shared_memory.c - memory that ranks of one machine have in common, and waiting for a word in it.
 *
 * The memory is a memfd of the group's first member: it has no name, so nothing is left behind
 * however the ranks end. The others open it through /proc while the first holds it, and make sure
 * that it is the one meant: this user's, of the right size, that can neither shrink nor grow, with
 * a number that only the run knows on a page behind the caller's bytes. Then all hear from the
 * first whether all have it.
 *
 * Whoever waits for a word looks for some microseconds, then yields, as its peers may need the very
 * core, then sleeps on the word, in slices, and between them looks at the world, so that signs of
 * life go out and come in. A receive that no message ever matches is posted meanwhile: net ends it
 * when that peer is lost, stops or stalls, as it would end any other. */
#include "net/world.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    PAGE = 1 << 16,  /* a multiple of every machine's */
    LARGE = 2 << 20, /* worth huge pages */
    WARY = 1000,     /* waits without a yield after one that took too long */
    DOUBT = 8,       /* waits that sleep at once after one that had to */
    NAP = 10000000,  /* ns asleep on a flag between looks at the world */
    OFFER = 0,
    HAVE = 1,
    VERDICT = 2,
    NEVER = 0xffffff /* parts of a tag */
};
/* seconds: */
/* of looking again and again, where there are cores enough; and where not */
static const double SPIN = 2e-5, GLIMPSE = 1e-6;
static const double PATIENCE = 5e-5; /* of yielding */
static const double ROBBED = 2e-4;   /* that one yield may take */
/* between looks at a flag when other fibres want to get on too */
static const double GLANCE = 5e-4;
static const int SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/* ---- memory ---- */

typedef struct offer {
    uint64_t number, bytes;
    int32_t pid, fd;
} offer;
typedef struct verdict {
    int32_t err;
    char why[252];
} verdict;

bool weir_net_shares(const weir_net *n) { return n->world->facts.shares && !n->dry; }

static size_t whole(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE + PAGE; }

/* Takes the descriptor's memory in; the number stands on the last page. */
static weir_err map(int fd, size_t bytes, char **at)
{
    char *p = mmap(NULL, whole(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED)
        return weir_fail(WEIR_FAILED, "%zu bytes of shared memory cannot be mapped: %s", bytes,
                         strerror(errno));
    if (bytes >= LARGE)
        madvise(p, bytes, MADV_HUGEPAGE); /* advice only: no harm where it is refused */
    *at = p;
    return WEIR_OK;
}

static uint64_t *number_of(char *at, size_t bytes)
{
    return (uint64_t *)(void *)(at + whole(bytes) - PAGE);
}

static weir_err make(size_t bytes, offer *o, char **at)
{
    int fd = memfd_create("weir", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    weir_err err;

    *o = (offer){.bytes = bytes, .pid = getpid(), .fd = fd};
    if (fd < 0 || getrandom(&o->number, sizeof o->number, 0) != sizeof o->number ||
        ftruncate(fd, (off_t)whole(bytes)) || fcntl(fd, F_ADD_SEALS, SEALS))
        err = weir_fail(WEIR_FAILED, "%zu bytes of shared memory cannot be had: %s", bytes,
                        strerror(errno));
    else
        err = map(fd, bytes, at);
    if (!err)
        *number_of(*at, bytes) = o->number;
    else if (fd >= 0)
        close(fd);
    return err;
}

static weir_err look(int fd, const offer *o, char **at)
{
    struct stat st;
    char *p;

    if (fstat(fd, &st) || st.st_uid != geteuid() || st.st_size != (off_t)whole(o->bytes) ||
        fcntl(fd, F_GET_SEALS) != SEALS)
        return weir_fail(WEIR_MISFIT, "process %d is somebody else", o->pid);
    WEIR_TRY(map(fd, o->bytes, &p));
    if (*number_of(p, o->bytes) == o->number)
        return *at = p, WEIR_OK;
    munmap(p, whole(o->bytes));
    return weir_fail(WEIR_MISFIT, "process %d is of another run", o->pid);
}

static weir_err take(const offer *o, size_t bytes, char **at)
{
    char path[64];
    weir_err err;
    int fd;

    if (o->bytes != bytes)
        return weir_fail(
            WEIR_MISFIT,
            "%zu bytes are wanted here, %llu there: the ranks do not run the same collective",
            bytes, (unsigned long long)o->bytes);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", o->pid, o->fd);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return weir_fail(
            WEIR_MISFIT,
            "%s: %s (in another container, or kept from looking into other processes?)", path,
            strerror(errno));
    err = look(fd, o, at);
    close(fd);
    return err;
}

static void judge(verdict *v, int rank, int owner, weir_err err)
{
    *v = (verdict){.err = err};
    if (err)
        snprintf(v->why, sizeof v->why, "rank %d cannot use the memory of rank %d: %s", rank, owner,
                 weir_why_text());
}

/* The first member: gives everybody the offer, hears how they fared, tells them. */
static weir_err give(weir_group *g, uint32_t sequence, const offer *o)
{
    verdict all = {0}, one;

    for (int i = 1; i < g->size; i++)
        WEIR_TRY(weir_net_send_wait(g->net, g->member[i],
                                    weir_tag(WEIR_CHANNEL_COLL, sequence, OFFER), o, sizeof *o));
    for (int i = 1; i < g->size; i++) {
        WEIR_TRY(weir_net_recv_wait(g->net, g->member[i],
                                    weir_tag(WEIR_CHANNEL_COLL, sequence, HAVE), &one, sizeof one,
                                    NULL));
        if (one.err && !all.err)
            all = one;
    }
    for (int i = 1; i < g->size; i++)
        WEIR_TRY(weir_net_send_wait(g->net, g->member[i],
                                    weir_tag(WEIR_CHANNEL_COLL, sequence, VERDICT), &all,
                                    sizeof all));
    all.why[sizeof all.why - 1] = 0;
    return all.err ? weir_fail((weir_err)all.err, "%s", all.why) : WEIR_OK;
}

static weir_err first(weir_group *g, uint32_t sequence, size_t bytes, char **at)
{
    offer o;
    char *p;
    weir_err err;

    WEIR_TRY(make(bytes, &o, &p));
    err = give(g, sequence, &o);
    close(o.fd);
    if (err)
        weir_net_unshare(p, bytes);
    else
        *at = p;
    return err;
}

static weir_err other(weir_group *g, uint32_t sequence, size_t bytes, char **at)
{
    int owner = g->member[0];
    verdict v;
    offer o;
    char *p = NULL;
    size_t len;
    weir_err err;

    WEIR_TRY(weir_net_recv_wait(g->net, owner, weir_tag(WEIR_CHANNEL_COLL, sequence, OFFER), &o,
                                sizeof o, &len));
    err =
        len == sizeof o ? take(&o, bytes, &p) : weir_fail(WEIR_MISFIT, "its offer makes no sense");
    judge(&v, g->member[g->me], owner, err);
    err = weir_net_send_wait(g->net, owner, weir_tag(WEIR_CHANNEL_COLL, sequence, HAVE), &v,
                             sizeof v);
    if (!err)
        err = weir_net_recv_wait(g->net, owner, weir_tag(WEIR_CHANNEL_COLL, sequence, VERDICT), &v,
                                 sizeof v, &len);
    v.why[sizeof v.why - 1] = 0;
    if (!err && (len != sizeof v || v.err))
        err = weir_fail(len == sizeof v ? (weir_err)v.err : WEIR_MISFIT, "%s", v.why);
    if (!err)
        *at = p;
    else if (p)
        weir_net_unshare(p, bytes);
    return err;
}

weir_err weir_net_share(weir_group *g, uint32_t sequence, size_t bytes, void **out)
{
    char *at;

    WEIR_TRY((g->me ? other : first)(g, sequence, bytes, &at));
    *out = at;
    return WEIR_OK;
}

void weir_net_unshare(void *at, size_t bytes) { munmap(at, whole(bytes)); }

void weir_net_count_shared(weir_net *n, uint64_t sent, uint64_t received)
{
    n->count.sent += sent;
    n->count.received += received;
}

/* ---- flags ---- */

static bool up(uint32_t seen, uint32_t value) { return (int32_t)(seen - value) >= 0; }
static bool raised(weir_flag *f, uint32_t value)
{
    return up(atomic_load_explicit(&f->value, memory_order_acquire), value);
}

/* Not the private kind: the word lies in several processes. */
void weir_net_raise(weir_flag *f, uint32_t value)
{
    atomic_store(&f->value, value);
    if (atomic_load(&f->sleepers))
        syscall(SYS_futex, &f->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Announced before the last look: who raises the flag after that look sees the sleeper and wakes
 * it. */
static void nap(weir_flag *f, uint32_t value)
{
    struct timespec t = {.tv_nsec = NAP};
    uint32_t seen;

    atomic_fetch_add(&f->sleepers, 1);
    seen = atomic_load(&f->value);
    if (!up(seen, value))
        syscall(SYS_futex, &f->value, FUTEX_WAIT, seen, &t, NULL, 0);
    atomic_fetch_sub(&f->sleepers, 1);
}

/* Sleeps until the flag is up or the receive that stands for the peer's life has ended. */
static void watch(weir_net *n, weir_net_op *life, weir_flag *f, uint32_t value)
{
    life->at = weir_net_now(n);
    while (!raised(f, value) && !life->done) {
        life->waiter = n->sched->current;
        if (n->sched->live - n->sched->patient > 1) {
            weir_sched_block(n, weir_net_now(n) + GLANCE);
            continue;
        }
        nap(f, value);
        if (!raised(f, value))
            weir_net_yield(n);
    }
    life->waiter = NULL;
}

static void pause_core(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static bool spin(weir_net *n, weir_flag *f, uint32_t value, double seconds)
{
    double until = weir_net_now(n) + seconds;

    do
        for (int i = 0; i < 16; i++) {
            if (raised(f, value))
                return true;
            pause_core();
        }
    while (weir_net_now(n) < until);
    return false;
}

/* Where ranks share cores, and now and then where they need not, who is waited for may be next in
 * line for this one. But if others want it for long (our own compute thread, say) a yield takes
 * milliseconds, and a sleeper would have been woken by the flag: then no more of it for a while. */
static bool yield(weir_net *n, weir_flag *f, uint32_t value)
{
    double begun = weir_net_now(n), last = begun, now;

    do {
        sched_yield();
        now = weir_net_now(n);
        if (now - last > ROBBED)
            n->wary = WARY;
        if (raised(f, value))
            return true;
        last = now;
    } while (!n->wary && now - begun < PATIENCE);
    return false;
}

/* More ranks on this machine than cores that we may use. */
static bool crowded(weir_net *n)
{
    cpu_set_t set;

    if (!n->cores) {
        n->cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
        n->here = weir_net_here(n);
    }
    return n->here > n->cores;
}

/* What costs no sleep, and takes no time worth mentioning from others when it has failed before. */
static bool soon(weir_net *n, weir_flag *f, uint32_t value)
{
    if (raised(f, value) || spin(n, f, value, crowded(n) ? GLIMPSE : SPIN))
        return true;
    if (n->wary) {
        n->wary--;
        return false;
    }
    if (yield(n, f, value))
        return true;
    if (!n->wary)
        n->wary = DOUBT;
    return false;
}

weir_err weir_net_await(weir_net *n, int peer, weir_flag *f, uint32_t value)
{
    weir_net_op life, *op = &life;
    weir_err err;

    if (soon(n, f, value))
        return WEIR_OK;
    weir_net_recv(n, peer, weir_tag(WEIR_CHANNEL_COLL, UINT32_MAX, NEVER), NULL, 0, &life);
    if (!life.done)
        watch(n, &life, f, value);
    err = raised(f, value) ? WEIR_OK : weir_net_why(n, &life);
    weir_net_cancel(n, &op, 1);
    return err;
}
