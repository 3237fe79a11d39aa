/* group.c - some ranks in a fixed order. Made by mesh.c, which knows what for. */
#include "net/net.h"
#include <stdlib.h>

/* Copies the members. `seen` has room for every rank. */
static weir_err take(weir_net *n, unsigned id, const int *members, int count, bool *seen,
                     weir_group *g)
{
    g->me = -1;
    for (int i = 0; i < count; i++) {
        if (members[i] < 0 || members[i] >= weir_net_size(n))
            return weir_fail(WEIR_USAGE, "group %u: there is no rank %d in a run of %d", id,
                             members[i], weir_net_size(n));
        if (seen[members[i]])
            return weir_fail(WEIR_USAGE, "group %u: rank %d is in it twice", id, members[i]);
        seen[members[i]] = true;
        if (members[i] == weir_net_rank(n))
            g->me = i;
        g->member[i] = members[i];
    }
    return g->me >= 0 ? WEIR_OK
                      : weir_fail(WEIR_USAGE, "group %u: this rank, %d, is not a member", id,
                                  weir_net_rank(n));
}

weir_err weir_group_make(weir_net *n, unsigned id, const int *members, int count, weir_arena *arena,
                         weir_group *out)
{
    weir_group g = {.net = n, .size = count, .id = id};
    bool *seen = calloc((size_t)weir_net_size(n), sizeof *seen);
    weir_err err;

    g.member = seen ? WEIR_NEW(arena, int, count > 0 ? count : 1) : NULL;
    err = g.member ? take(n, id, members, count, seen, &g)
                   : weir_fail_nomem((size_t)count * sizeof *g.member);
    free(seen);
    if (!err)
        *out = g;
    return err;
}

weir_err weir_group_all(weir_net *n, weir_arena *arena, weir_group *out)
{
    int *member = WEIR_NEW(arena, int, weir_net_size(n));

    if (!member)
        return weir_fail_nomem((size_t)weir_net_size(n) * sizeof *member);
    for (int i = 0; i < weir_net_size(n); i++)
        member[i] = i;
    *out =
        (weir_group){.net = n, .member = member, .size = weir_net_size(n), .me = weir_net_rank(n)};
    return WEIR_OK;
}
