/* mailbox.c - see mailbox.h. */
#include "exchange/mailbox.h"

struct weir_mailbox {
    weir_group *group;
    int lanes, bound, window; /* window: deltas of one member that may be on their way */
    bool open;
    uint64_t first; /* the step it was opened for */
    /* by lane: where its delta lies in a place; by place and lane: how long it is */
    size_t *at, *len;
    size_t room;           /* bytes of a place */
    char *mine;            /* bound + 1 places; NULL: dry */
    uint64_t *taken;       /* by member: deltas since the first */
    weir_net_op *in, *out; /* by member, `window` each; by place, lane and member */
    weir_net_op **all;     /* every one of them */
    size_t ops;
};

/* ---- where things are ---- */

static size_t place_of(const weir_mailbox *p, uint64_t step)
{
    return (size_t)(step % (uint64_t)(p->bound + 1));
}

static size_t *length_of(const weir_mailbox *p, uint64_t step, int lane)
{
    return &p->len[place_of(p, step) * (size_t)p->lanes + (size_t)lane];
}

static weir_net_op *outs(const weir_mailbox *p, uint64_t step, int lane)
{
    return &p->out[(place_of(p, step) * (size_t)p->lanes + (size_t)lane) * (size_t)p->group->size];
}

static weir_net_op *in_of(const weir_mailbox *p, int member, uint64_t number)
{
    return &p->in[(size_t)member * (size_t)p->window + (size_t)(number % (uint64_t)p->window)];
}

static uint64_t step_of(const weir_mailbox *p, uint64_t number)
{
    return p->first + number / (uint64_t)p->lanes;
}

static uint64_t tag_of(uint64_t step, int lane)
{
    return weir_tag(WEIR_CHANNEL_PEERS, (uint32_t)step, (uint32_t)lane);
}

/* ---- making ---- */

/* An operation that was never begun is one that is over. */
static weir_err make_ops(weir_mailbox *p, weir_arena *arena)
{
    size_t n = (size_t)p->group->size, in = n * (size_t)p->window;

    p->ops = in + ((size_t)p->bound + 1) * (size_t)p->lanes * n;
    p->in = WEIR_NEW(arena, weir_net_op, p->ops);
    p->all = WEIR_NEW(arena, weir_net_op *, p->ops);
    if (!p->in || !p->all)
        return weir_fail_nomem(p->ops * (sizeof *p->in + sizeof *p->all));
    p->out = p->in + in;
    for (size_t i = 0; i < p->ops; i++) {
        p->all[i] = &p->in[i];
        p->in[i].done = true;
    }
    return WEIR_OK;
}

weir_err weir_mailbox_make(weir_group *g, const size_t *most, int lanes, int bound,
                           weir_arena *arena, weir_mailbox **out)
{
    weir_mailbox *p = WEIR_NEW(arena, weir_mailbox, 1);
    size_t places = (size_t)bound + 1, n = (size_t)g->size, k = (size_t)lanes;

    if (!p)
        return weir_fail_nomem(sizeof *p);
    *p = (weir_mailbox){.group = g,
                        .lanes = lanes,
                        .bound = bound,
                        .window = lanes * (2 * bound + 2)};
    p->at = WEIR_NEW(arena, size_t, k);
    p->len = WEIR_NEW(arena, size_t, places * k);
    p->taken = WEIR_NEW(arena, uint64_t, n);
    if (!p->at || !p->len || !p->taken)
        return weir_fail_nomem((k + places * k + n) * sizeof *p->at);
    WEIR_TRY(make_ops(p, arena));
    for (size_t i = 0; i < k; i++) {
        p->at[i] = p->room;
        p->room += (most[i] + 63) / 64 * 64;
    }
    if (!weir_net_dry(g->net) && !(p->mine = weir_alloc_many(arena, places, p->room)))
        return weir_fail_nomem(places * p->room);
    *out = p;
    return WEIR_OK;
}

/* The receive that a delta of this member meets. */
static void post(weir_mailbox *p, int member, uint64_t number)
{
    uint64_t tag = tag_of(step_of(p, number), (int)(number % (uint64_t)p->lanes));

    weir_net_recv(p->group->net, p->group->member[member], tag, NULL, 0, in_of(p, member, number));
}

void weir_mailbox_open(weir_mailbox *p, uint64_t step)
{
    p->first = step;
    p->open = true;
    for (int m = 0; m < p->group->size; m++) {
        p->taken[m] = 0;
        for (int i = 0; i < p->window && m != p->group->me; i++)
            post(p, m, (uint64_t)i);
    }
}

bool weir_mailbox_is_open(const weir_mailbox *p) { return p->open; }
uint64_t weir_mailbox_first(const weir_mailbox *p) { return p->first; }
uint64_t weir_mailbox_taken(const weir_mailbox *p, int member) { return p->taken[member]; }

/* ---- out ---- */

void *weir_mailbox_slot(weir_mailbox *p, uint64_t step, int lane)
{
    return p->mine ? p->mine + place_of(p, step) * p->room + p->at[lane] : NULL;
}

void weir_mailbox_send(weir_mailbox *p, uint64_t step, int lane, size_t len)
{
    weir_group *g = p->group;

    *length_of(p, step, lane) = len;
    for (int k = 1; k < g->size; k++) {
        int to = (g->me + k) % g->size; /* each begins with another */
        weir_net_send(g->net, g->member[to], tag_of(step, lane), weir_mailbox_slot(p, step, lane),
                      len, &outs(p, step, lane)[to]);
    }
}

weir_delta weir_mailbox_own(const weir_mailbox *p, uint64_t step, int lane)
{
    return (weir_delta){p->group->me, lane, step,
                        weir_mailbox_slot((weir_mailbox *)(uintptr_t)p, step, lane),
                        *length_of(p, step, lane)};
}

weir_err weir_mailbox_free(weir_mailbox *p, uint64_t step)
{
    return weir_net_wait_all(p->group->net, outs(p, step, 0), p->lanes * p->group->size, 0);
}

/* ---- in ---- */

weir_err weir_mailbox_wait(weir_mailbox *p, uint64_t step)
{
    weir_group *g = p->group;

    for (int m = 0; m < g->size; m++)
        for (uint64_t i = p->taken[m]; m != g->me && step_of(p, i) <= step; i++)
            WEIR_TRY(weir_net_wait_all(g->net, in_of(p, m, i), 1, 0));
    return WEIR_OK;
}

weir_err weir_mailbox_take(weir_mailbox *p, int member, uint64_t latest, weir_delta *delta,
                           bool *taken)
{
    uint64_t number = p->taken[member], step = step_of(p, number);
    weir_net_op *op = in_of(p, member, number);

    *taken = false;
    if (step > latest || !op->done)
        return WEIR_OK;
    WEIR_TRY(weir_net_why(p->group->net, op));
    *delta = (weir_delta){member, (int)(number % (uint64_t)p->lanes), step, op->data, op->len};
    *taken = true;
    return WEIR_OK;
}

void weir_mailbox_done(weir_mailbox *p, const weir_delta *delta)
{
    uint64_t number = p->taken[delta->from]++;

    weir_net_release(p->group->net, in_of(p, delta->from, number));
    post(p, delta->from, number + (uint64_t)p->window);
}

int weir_mailbox_apart(const weir_mailbox *p, uint64_t step)
{
    int apart = 0;

    for (int m = 0; m < p->group->size; m++) {
        uint64_t next = step_of(p, p->taken[m]); /* the first step that is not wholly here */
        if (m != p->group->me && next <= step && (int)(step + 1 - next) > apart)
            apart = (int)(step + 1 - next);
    }
    return apart;
}

/* ---- the end ---- */

void weir_mailbox_close(weir_mailbox *p)
{
    weir_net_cancel(p->group->net, p->all, (int)p->ops);
    p->open = false;
}
