/* tree.c - two binary trees, pipelined: lg p latency, and every rank sends and receives at most
 * twice the buffer.
 *
 * Words: in the first tree node 0 stands above the largest power of two below p, and an even node
 * v, whose lowest bit is b, above v - b/2 and the nearest of v + b/2, v + b/4, ... that exists: odd
 * nodes are leaves. The second tree is the first with its nodes renamed so that odd becomes even.
 * One half of the buffer is summed up the first tree and told down it, the other half the second.
 *
 * Every member counts rounds. Of a tree of height H a node at depth d adds and passes up segment k
 * in round k + H - d, and passes it down in round k + H + d: what it needs was sent to it one round
 * before, so that hops overlap, and the two ways as well. And no one waits for ever: who is in the
 * earliest round of all needs nothing that is not under way, and whom it sends to has its receives
 * posted. What comes down lands where the same segment's way up may not have been reported done:
 * but it could not come down before that was read. */
#include "coll/halves.h"

enum { TREE_FLOWS = 12, NONE = -1 };

/* One of the two trees, as this member sees it. */
typedef struct branch {
    int parent, child[2], children, depth;
    weir_talk_flow *up_in[2], *up_out, *down_in, *down_out[2];
    int segments;
} branch;

/* A member's node in a tree, and back. */
static int node(int tree, int p, int v, int back)
{
    if (!tree)
        return v;
    return p % 2 ? (v + (back ? 1 : p - 1)) % p : p - 1 - v;
}

static int above(int v, int p)
{
    int low = v & -v, up = (v ^ low) | low << 1;

    return up < p ? up : v ^ low;
}

static void find(branch *b, int tree, const weir_group *g)
{
    int p = g->size, v = node(tree, p, g->me, 0),
        step = v ? (v & -v) / 2 : weir_halves_floor2(p > 2 ? p - 1 : 1);

    b->parent = v ? node(tree, p, above(v, p), 1) : NONE;
    for (int u = v; u; u = above(u, p))
        b->depth++;
    if (v && step)
        b->child[b->children++] = node(tree, p, v - step, 1);
    while (step && v + step >= p)
        step /= 2;
    if (step)
        b->child[b->children++] = node(tree, p, v + step, 1);
}

static weir_err open_branch(weir_talk *t, int tree, branch *b)
{
    size_t at = weir_coll_cut(t->units, 2, tree) * t->unit,
           end = weir_coll_cut(t->units, 2, tree + 1) * t->unit;
    weir_talk_leg up = {.at = at, .bytes = end - at, .stream = (unsigned)tree}, down = up;

    find(b, tree, t->group);
    down.stream = 2 + up.stream;
    for (int c = 0; c < b->children; c++) {
        up.member = down.member = b->child[c];
        WEIR_TRY(weir_talk_flow_open(t, &up, false, WEIR_TALK_AFTER, &b->up_in[c]));
        WEIR_TRY(weir_talk_flow_open(t, &down, true, WEIR_TALK_LAND, &b->down_out[c]));
    }
    up.member = down.member = b->parent;
    WEIR_TRY(weir_talk_flow_open(t, &up, true, WEIR_TALK_AFTER, &b->up_out));
    WEIR_TRY(weir_talk_flow_open(t, &down, false, WEIR_TALK_LAND, &b->down_in));
    b->segments = b->up_out ? b->up_out->segments : b->up_in[0]->segments;
    return WEIR_OK;
}

static weir_err go_up(weir_talk *t, branch *b, int k)
{
    if (k < 0 || k >= b->segments)
        return WEIR_OK;
    for (int c = 0; c < b->children; c++)
        WEIR_TRY(weir_talk_flow_take(t, b->up_in[c], k, WEIR_TALK_AFTER));
    return b->up_out ? weir_talk_flow_send(t, b->up_out, k) : WEIR_OK;
}

static weir_err go_down(weir_talk *t, branch *b, int k)
{
    if (k < 0 || k >= b->segments)
        return WEIR_OK;
    if (b->down_in)
        WEIR_TRY(weir_talk_flow_take(t, b->down_in, k, WEIR_TALK_LAND));
    for (int c = 0; c < b->children; c++)
        WEIR_TRY(weir_talk_flow_send(t, b->down_out[c], k));
    return WEIR_OK;
}

static weir_err both_ways(weir_talk *t)
{
    branch b[2] = {0};
    int height = 0, segments;

    for (int q = 1; q < t->group->size; q *= 2)
        height++;
    for (int i = 0; i < 2; i++)
        WEIR_TRY(open_branch(t, i, &b[i]));
    segments = b[0].segments > b[1].segments ? b[0].segments : b[1].segments;
    for (int round = 0; round < segments + 2 * height; round++) {
        for (int i = 0; i < 2; i++)
            WEIR_TRY(go_up(t, &b[i], round - height + b[i].depth));
        for (int i = 0; i < 2; i++)
            WEIR_TRY(go_down(t, &b[i], round - height - b[i].depth));
    }
    return WEIR_OK;
}

static weir_err open_flows(void *self, const weir_group *group, weir_arena *arena)
{
    (void)group;
    return weir_talk_flows(self, TREE_FLOWS, arena);
}

static weir_err allreduce(void *self, weir_group *group, void *buf, size_t units,
                          const weir_sum *sum)
{
    weir_talk_begin(self, group, buf, units, sum);
    return weir_talk_end(self, both_ways(self));
}

static const weir_opt options[] = {
    {"segment", WEIR_OPT_INT, offsetof(weir_talk, segment), "32768", "bytes that travel together",
     .min = 64, .max = 1 << 30},
    {"window", WEIR_OPT_INT, offsetof(weir_talk, window), "8",
     "segments under way at once, each way", .min = 1, .max = WEIR_TALK_WINDOW},
    {0},
};

const weir_coll weir_coll_tree = {
    .plug =
        {"tree",
         "two binary trees, pipelined: few steps and few bytes, for many ranks and middling sizes",
         sizeof(weir_talk), options},
    .open = open_flows,
    .allreduce = allreduce,
    .reduce_scatter = allreduce,
    .allgather = weir_talk_allgather,
    .broadcast = weir_talk_broadcast,
};
