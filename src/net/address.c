/* address.c - see address.h. */
#include "net/address.h"
#include "core/hash.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- addresses ---- */

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static void set_host(weir_address *out, const struct sockaddr *a)
{
    const void *bytes = a->sa_family == AF_INET
                            ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr;

    out->six = a->sa_family == AF_INET6;
    out->loopback = is_loopback(a);
    inet_ntop(a->sa_family, bytes, out->host, sizeof out->host);
}

/* "Any address": one can listen there, and nobody can go there. */
static bool is_unspecified(const char *host)
{
    return !strcmp(host, "0.0.0.0") || !strcmp(host, "::");
}

/* Cuts HOST:PORT in two; brackets go. */
static bool cut(const char *text, char *host, size_t room, int *port)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    char *end;
    long x = colon ? strtol(colon + 1, &end, 10) : 0;

    if (!n || n >= room || x < 1 || x > 65535 || *end)
        return false;
    if (text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    memcpy(host, text, n);
    host[n] = 0;
    *port = (int)x;
    return true;
}

weir_err weir_address_find(const char *text, weir_address *out)
{
    struct addrinfo want = {.ai_socktype = SOCK_DGRAM}, *all = NULL, *best;
    weir_address found = {0};
    char host[128];
    int code;

    if (!cut(text, host, sizeof host, &found.port))
        return weir_fail(WEIR_USAGE, "%.100s: HOST:PORT was expected", text);
    code = getaddrinfo(host, NULL, &want, &all);
    if (code)
        return weir_fail(WEIR_USAGE, "the rendezvous %s: there is no host %s: %s", text, host,
                         gai_strerror(code));
    for (best = all; best && best->ai_family != AF_INET;)
        best = best->ai_next;
    for (best = best ? best : all;
         best && best->ai_family != AF_INET && best->ai_family != AF_INET6;)
        best = best->ai_next;
    if (best)
        set_host(&found, best->ai_addr);
    freeaddrinfo(all);
    if (!found.host[0])
        return weir_fail(WEIR_USAGE, "the rendezvous %s: %s has no address", text, host);
    if (is_unspecified(found.host))
        return weir_fail(WEIR_USAGE,
                         "the rendezvous %s is no address that others can go to: name rank 0's own",
                         text);
    *out = found;
    return WEIR_OK;
}

static socklen_t fill(const weir_address *a, struct sockaddr_storage *out)
{
    struct sockaddr_in *four = (struct sockaddr_in *)out;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;

    memset(out, 0, sizeof *out);
    if (!a->six) {
        *four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)a->port)};
        inet_pton(AF_INET, a->host, &four->sin_addr);
        return sizeof *four;
    }
    *six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)a->port)};
    inet_pton(AF_INET6, a->host, &six->sin6_addr);
    return sizeof *six;
}

/* Nothing is sent: connecting a datagram socket only asks the kernel for the way. */
weir_err weir_address_here(const weir_address *there, weir_address *here)
{
    struct sockaddr_storage to, from;
    socklen_t n = fill(there, &to), m = sizeof from;
    int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), why = 0;

    if (fd < 0 || connect(fd, (struct sockaddr *)&to, n) ||
        getsockname(fd, (struct sockaddr *)&from, &m))
        why = errno;
    if (fd >= 0)
        close(fd);
    if (why)
        return weir_fail(WEIR_FAILED,
                         "there is no way from this machine to the rendezvous at %s: %s",
                         there->host, strerror(why));
    *here = (weir_address){.port = 0};
    set_host(here, (struct sockaddr *)&from);
    return WEIR_OK;
}

void weir_address_knock(const weir_address *there, int ms)
{
    struct sockaddr_storage to;
    socklen_t n = fill(there, &to);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return;
    if (!connect(fd, (struct sockaddr *)&to, n) || errno == EINPROGRESS)
        poll(NULL, 0, ms);
    close(fd);
}

void weir_address_text(const weir_address *a, char text[WEIR_ADDRESS_MAX])
{
    char port[16] = "*";

    if (a->port)
        snprintf(port, sizeof port, "%d", a->port);
    snprintf(text, WEIR_ADDRESS_MAX, a->six ? "tcp://[%s]:%s" : "tcp://%s:%s", a->host, port);
}

bool weir_address_good(const char *text, bool *loopback)
{
    struct in6_addr bytes;
    char host[WEIR_ADDRESS_MAX];
    const char *at = text + 6;
    int port;
    bool six = !strncmp(text, "tcp://[", 7);

    if (strncmp(text, "tcp://", 6) || strspn(at, "0123456789abcdefABCDEF.:[]") != strlen(at))
        return false;
    if (strlen(at) >= sizeof host || !cut(at, host, sizeof host, &port) ||
        inet_pton(six ? AF_INET6 : AF_INET, host, &bytes) != 1)
        return false;
    *loopback = six ? IN6_IS_ADDR_LOOPBACK(&bytes) : !strncmp(host, "127.", 4);
    return !is_unspecified(host);
}

/* ---- machines ---- */

/* Of what the file holds; where there is none, by chance: a machine that cannot be told from
 * another is taken for no other. */
static uint64_t hash_file(const char *path, uint64_t seed)
{
    char text[128];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        n = getrandom(text, 16, 0);
    return weir_hash(text, n > 0 ? (size_t)n : 0, seed);
}

static uint64_t hash_place(const char *path, uint64_t seed)
{
    struct stat st;
    uint64_t it[2] = {0};

    if (!stat(path, &st)) {
        it[0] = (uint64_t)st.st_dev;
        it[1] = (uint64_t)st.st_ino;
    }
    return weir_hash(it, sizeof it, seed);
}

uint64_t weir_net_machine_id(void)
{
    uint64_t id = hash_file("/proc/sys/kernel/random/boot_id", geteuid());

    return hash_place("/tmp", hash_place("/proc/self/ns/net", id));
}
