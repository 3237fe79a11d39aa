/* agree.c - settings, contents and parameters compared over the ranks: hashes first, and the whole
 * only where they differ. */
#include "train/agree.h"
#include "core/hash.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 16384 }; /* of the settings as text */

/* Each rank's own business, or asked for elsewhere. */
static const char *const own[] = {"workers",  "threads", "out",      "log",  "quiet",      "keep",
                                  "timeout",  "stall",   "rank",     "size", "rendezvous", "key",
                                  "insecure", "join",    "restarts", NULL};

/* ---- settings ---- */

static bool is_own(const char *key)
{
    for (const char *const *k = own; *k; k++)
        if (!strcmp(*k, key))
            return true;
    return false;
}

/* Where an item of a spec says its path: behind "kind:", or else "key=", if that is before `end`.
 */
static const char *path_of(const char *item, const char *end)
{
    const char *mark = memchr(item, ':', (size_t)(end - item));

    if (!mark)
        mark = memchr(item, '=', (size_t)(end - item));
    return mark ? mark + 1 : item;
}

/* The same item without the directories of its path; gives where it ends now. A slash behind the
 * last name says nothing. */
static char *strip_item(char *to, const char *item, const char *end)
{
    const char *path, *name;

    while (end > item && end[-1] == '/')
        end--;
    name = memrchr(item, '/', (size_t)(end - item));
    if (name) {
        path = path_of(item, ++name);
        memmove(to, item, (size_t)(path - item));
        to += path - item;
    } else {
        name = item;
    }
    memmove(to, name, (size_t)(end - name));
    return to + (end - name);
}

/* A spec without its files' directories: "idx:/a/b/mnist,limit=5" gives "idx:mnist,limit=5". */
static void strip_paths(char *value)
{
    char *to = value;

    for (const char *item = value; *item;) {
        const char *end = item + strcspn(item, ",");
        to = strip_item(to, item, end);
        item = end;
        if (*item == ',')
            *to++ = *item++;
    }
    *to = 0;
}

static void write_settings(const weir_settings *set, const char *more, char *text)
{
    char value[4200];
    size_t n = 0;

    for (const weir_opt *o = weir_settings_options; o->name && n < ROOM; o++) {
        if (is_own(o->name))
            continue;
        weir_opt_show(o, set, value, sizeof value);
        strip_paths(value);
        n += (size_t)snprintf(text + n, ROOM - n, "--%s %s\n", o->name, value);
    }
    if (n < ROOM)
        snprintf(text + n, ROOM - n, "%s", more);
}

/* The first line that differs: key, and both values. The texts are cut in place. */
static weir_err name_difference(char *here, char *there, const weir_group *g, int other)
{
    char *a = here, *b = there;

    while (*a && *b) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n"), key = strcspn(a, " \n"),
               same = strcspn(b, " \n");
        if (n != m || memcmp(a, b, n)) {
            a[n] = b[m] = 0;
            if (key != same || memcmp(a, b, key))
                break;
            return weir_fail(WEIR_MISFIT,
                             "the ranks do not run the same thing: %.*s is '%.200s' on rank %d and "
                             "'%.200s' on rank %d",
                             (int)key, a, a + key + (a[key] == ' '), g->member[0],
                             b + key + (b[key] == ' '), g->member[other]);
        }
        a += n + (a[n] == '\n');
        b += m + (b[m] == '\n');
    }
    return weir_fail(WEIR_MISFIT,
                     "the ranks do not run the same thing: rank %d has other settings than rank %d",
                     g->member[other], g->member[0]);
}

static void places(size_t *off, size_t *len, int p, size_t each)
{
    for (int i = 0; i < p; i++) {
        off[i] = (size_t)i * each;
        len[i] = each;
    }
}

static int first_other(const uint64_t *x, int n)
{
    for (int i = 1; i < n; i++)
        if (x[i] != x[0])
            return i;
    return 0;
}

/* All others hold the same, and it does not. Of two, nobody can say. */
static bool stands_alone(const uint64_t *x, int n, int i)
{
    uint64_t others = x[i ? 0 : 1];

    for (int k = 0; k < n; k++)
        if ((x[k] == others) == (k == i))
            return false;
    return n > 2;
}

/* -1: there is none; first_other tells two that differ. */
static int odd_one(const uint64_t *x, int n)
{
    for (int i = 0; i < n; i++)
        if (stands_alone(x, n, i))
            return i;
    return -1;
}

/* Word that a rank leaves with an error may overtake what it sent before: so nobody leaves until
 * all have what they need to say the same. How the barrier itself ends says nothing. */
static void wait_for_all(weir_coll_use *coll, weir_group *g) { (void)!weir_barrier(coll, g); }

weir_err weir_agree_settings(weir_group *g, const weir_settings *set, const char *more,
                             weir_arena *arena)
{
    size_t p = (size_t)g->size;
    char *mine = weir_alloc(arena, ROOM), *other = weir_alloc(arena, ROOM);
    uint64_t *hash = WEIR_NEW(arena, uint64_t, p);
    size_t *off = WEIR_NEW(arena, size_t, 2 * p);
    weir_coll_use ring;
    int member;

    if (!mine || !other || !hash || !off)
        return weir_fail_nomem(2 * ROOM + 3 * p * sizeof *hash);
    WEIR_TRY(weir_coll_open("ring", g, arena, &ring));
    write_settings(set, more, mine);
    hash[g->me] = weir_hash(mine, strlen(mine), 0);
    places(off, off + p, g->size, sizeof *hash);
    WEIR_TRY(weir_allgather(&ring, g, hash, off, off + p));
    if (!(member = first_other(hash, g->size)))
        return WEIR_OK;
    memcpy(other, mine, ROOM);
    WEIR_TRY(weir_broadcast(&ring, g, 0, mine, ROOM));
    WEIR_TRY(weir_broadcast(&ring, g, member, other, ROOM));
    mine[ROOM - 1] = other[ROOM - 1] = 0;
    wait_for_all(&ring, g);
    return name_difference(mine, other, g, member);
}

/* ---- contents ---- */

static weir_err name_content(const char *name, const uint64_t *hash, const weir_group *g)
{
    static const char cure[] = "copy the files from one machine to the others";
    int odd = odd_one(hash, g->size);

    if (odd < 0)
        return weir_fail(WEIR_MISFIT,
                         "the ranks do not run the same thing: the %s of rank %d and that of rank "
                         "%d differ in content; %s",
                         name, g->member[0], g->member[first_other(hash, g->size)], cure);
    return weir_fail(WEIR_MISFIT,
                     "the ranks do not run the same thing: the %s of rank %d differs in content "
                     "from that of the other ranks; %s",
                     name, g->member[odd], cure);
}

weir_err weir_agree_contents(weir_group *g, const weir_content *content, int n, weir_arena *arena)
{
    size_t p = (size_t)g->size, each = (size_t)n * sizeof(uint64_t);
    uint64_t *all = WEIR_NEW(arena, uint64_t, p * (size_t)n), *one = WEIR_NEW(arena, uint64_t, p);
    size_t *off = WEIR_NEW(arena, size_t, 2 * p);
    weir_coll_use ring;

    if (!all || !one || !off)
        return weir_fail_nomem(p * (each + 3 * sizeof *off));
    WEIR_TRY(weir_coll_open("ring", g, arena, &ring));
    for (int i = 0; i < n; i++)
        all[g->me * n + i] = content[i].hash;
    places(off, off + p, g->size, each);
    WEIR_TRY(weir_allgather(&ring, g, all, off, off + p));
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < p; k++)
            one[k] = all[k * (size_t)n + (size_t)i];
        if (!first_other(one, g->size))
            continue;
        wait_for_all(&ring, g);
        return name_content(content[i].name, one, g);
    }
    return WEIR_OK;
}

/* ---- parameters ---- */

weir_err weir_replica_open(weir_replica *r, weir_arena *arena)
{
    size_t p = (size_t)r->group->size, n = (size_t)r->tensors;

    r->hash = WEIR_NEW(arena, uint64_t, n);
    r->all = WEIR_NEW(arena, uint64_t, p);
    r->off = WEIR_NEW(arena, size_t, p);
    r->len = WEIR_NEW(arena, size_t, p);
    return r->hash && r->all && r->off && r->len ? WEIR_OK
                                                 : weir_fail_nomem((n + 3 * p) * sizeof *r->hash);
}

/* Tensor by tensor: rare, and the last thing that this run does. */
static weir_err name_tensor(weir_replica *r)
{
    const int *member = r->group->member;
    int p = r->group->size, odd;

    for (int i = 0; i < r->tensors; i++) {
        r->all[r->group->me] = r->hash[i];
        WEIR_TRY(weir_allgather(r->coll, r->group, r->all, r->off, r->len));
        if (!first_other(r->all, p))
            continue;
        wait_for_all(r->coll, r->group);
        odd = odd_one(r->all, p);
        if (odd < 0)
            return weir_fail(WEIR_DIVERGED,
                             "after step %llu ranks %d and %d hold different values of %s",
                             (unsigned long long)r->step, member[0], member[first_other(r->all, p)],
                             r->tensor[i].name);
        return weir_fail(WEIR_DIVERGED,
                         "after step %llu rank %d holds other values of %s than the other ranks",
                         (unsigned long long)r->step, member[odd], r->tensor[i].name);
    }
    return weir_fail(WEIR_DIVERGED, "after step %llu the ranks' parameters differ",
                     (unsigned long long)r->step);
}

weir_err weir_replica_check(weir_replica *r)
{
    uint64_t number = (uint64_t)r->tensors;
    int other;

    places(r->off, r->len, r->group->size, sizeof *r->all);
    for (int i = 0; i < r->tensors; i++)
        r->hash[i] = weir_hash(r->param + r->tensor[i].at, r->tensor[i].n * sizeof(float),
                               weir_hash(r->tensor[i].name, strlen(r->tensor[i].name), 0));
    r->all[r->group->me] = weir_hash(r->hash, (size_t)r->tensors * sizeof *r->hash, number);
    WEIR_TRY(weir_allgather(r->coll, r->group, r->all, r->off, r->len));
    if (!first_other(r->all, r->group->size))
        return WEIR_OK;
    r->all[r->group->me] = number;
    WEIR_TRY(weir_allgather(r->coll, r->group, r->all, r->off, r->len));
    if ((other = first_other(r->all, r->group->size))) {
        wait_for_all(r->coll, r->group);
        return weir_fail(WEIR_DIVERGED, "rank %d has a model of %llu tensors, rank %d one of %llu",
                         r->group->member[0], (unsigned long long)r->all[0],
                         r->group->member[other], (unsigned long long)r->all[other]);
    }
    return name_tensor(r);
}
