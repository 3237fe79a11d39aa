/* group.c - some ranks in a fixed order. */
#include "net/net.h"
#include <string.h>

weir_err weir_group_make(weir_net *n, unsigned id, const int *members, int count, weir_arena *arena,
                         weir_group *out)
{
    int *member = WEIR_NEW(arena, int, count > 0 ? count : 1), me = -1;

    if (!member)
        return weir_fail_nomem((size_t)count * sizeof *member);
    for (int i = 0; i < count; i++) {
        if (members[i] < 0 || members[i] >= weir_net_size(n))
            return weir_fail(WEIR_USAGE, "group %u: there is no rank %d in a run of %d", id,
                             members[i], weir_net_size(n));
        for (int k = 0; k < i; k++)
            if (members[k] == members[i])
                return weir_fail(WEIR_USAGE, "group %u: rank %d is in it twice", id, members[i]);
        if (members[i] == weir_net_rank(n))
            me = i;
        member[i] = members[i];
    }
    if (me < 0)
        return weir_fail(WEIR_USAGE, "group %u: this rank, %d, is not a member", id,
                         weir_net_rank(n));
    *out = (weir_group){.net = n, .member = member, .size = count, .me = me, .id = id};
    return WEIR_OK;
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
