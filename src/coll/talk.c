/* talk.c - flows: a range of bytes to or from one member, in segments. */
#include "coll/talk.h"
#include <string.h>

const weir_opt weir_talk_options[] = {WEIR_TALK_OPTIONS, {0}};

enum { CHECK_BITS = 12 };
#define CHECK_MASK (((uint64_t)1 << CHECK_BITS) - 1)

/* ---- opening ---- */

weir_err weir_talk_flows(weir_talk *t, int flows, weir_arena *arena)
{
    weir_talk_flow *flow = WEIR_NEW(arena, weir_talk_flow, flows);
    weir_net_op *op = WEIR_NEW(arena, weir_net_op, (size_t)flows * (size_t)t->window);

    t->spare = weir_alloc(arena, WEIR_TALK_SPARE);
    if (!flow || !op || !t->spare)
        return weir_fail_nomem((size_t)flows * (size_t)t->window * sizeof *op);
    for (int i = 0; i < flows; i++)
        flow[i] = (weir_talk_flow){.peer = -1, .op = op + (size_t)i * (size_t)t->window};
    t->flow = flow;
    t->flows = flows;
    return WEIR_OK;
}

weir_err weir_talk_open(void *talk, const weir_group *group, weir_arena *arena)
{
    (void)group;
    return weir_talk_flows(talk, WEIR_TALK_FLOWS, arena);
}

void weir_talk_begin(weir_talk *t, weir_group *group, void *buf, size_t units, const weir_sum *sum)
{
    size_t unit = sum ? sum->unit : 1, whole = (size_t)t->segment / unit * unit;

    t->group = group;
    t->net = group->net;
    t->dry = weir_net_dry(group->net);
    t->buf = t->dry ? NULL : buf;
    t->units = units;
    t->unit = unit;
    t->sum = sum;
    t->step = whole ? whole : unit;
    t->sequence = weir_coll_sequence(group);
    t->next = 0;
}

/* ---- one flow ---- */

static weir_net_op *op_of(const weir_talk *t, const weir_talk_flow *f, int k)
{
    return &f->op[k % t->window];
}

/* Where segment k lies and how long it is. */
static char *segment(const weir_talk *t, const weir_talk_flow *f, int k, size_t *bytes)
{
    size_t from = (size_t)k * t->step;

    *bytes = f->bytes - from < t->step ? f->bytes - from : t->step;
    return f->at ? f->at + from : NULL;
}

static void post(weir_talk *t, weir_talk_flow *f)
{
    size_t bytes;
    char *at = segment(t, f, f->begun, &bytes);
    bool lands = f->lands && at && bytes;
    weir_net_want want = {f->peer, f->tag, ~CHECK_MASK, lands ? at : NULL, lands ? bytes : 0};

    weir_net_recv_masked(t->net, &want, op_of(t, f, f->begun));
    f->begun++;
}

/* Lets out what the flow still sends; a flow inwards has been taken whole. */
static weir_err finish(weir_talk *t, weir_talk_flow *f)
{
    int first = f->begun > t->window ? f->begun - (int)t->window : 0;

    for (int k = first; f->peer >= 0 && f->out && k < f->begun; k++)
        WEIR_TRY(weir_net_wait_all(t->net, op_of(t, f, k), 1, 0));
    f->peer = -1;
    return WEIR_OK;
}

weir_err weir_talk_flow_open(weir_talk *t, const weir_talk_leg *leg, bool out, weir_talk_how how,
                             weir_talk_flow **flow)
{
    weir_talk_flow *f = &t->flow[t->next];
    uint64_t check = (uint64_t)leg->bytes * 0x9e3779b97f4a7c15u >> (64 - CHECK_BITS);

    *flow = NULL;
    if (leg->member < 0)
        return WEIR_OK;
    t->next = (t->next + 1) % t->flows;
    WEIR_TRY(finish(t, f));
    *f = (weir_talk_flow){.peer = t->group->member[leg->member],
                          .out = out,
                          .lands = how == WEIR_TALK_LAND,
                          .tag = weir_tag(WEIR_CHANNEL_COLL, t->sequence,
                                          (uint32_t)(leg->stream << CHECK_BITS | check)),
                          .at = t->buf ? t->buf + leg->at : NULL,
                          .bytes = leg->bytes,
                          .segments = leg->bytes ? (int)((leg->bytes + t->step - 1) / t->step) : 1,
                          .op = f->op};
    while (!out && f->begun < f->segments && f->begun < t->window)
        post(t, f);
    *flow = f;
    return WEIR_OK;
}

weir_err weir_talk_flow_send(weir_talk *t, weir_talk_flow *f, int k)
{
    size_t bytes;
    char *at = segment(t, f, k, &bytes);

    if (k >= t->window)
        WEIR_TRY(weir_net_wait_all(t->net, op_of(t, f, k), 1, 0));
    weir_net_send(t->net, f->peer, f->tag, at, bytes, op_of(t, f, k));
    f->begun = k + 1;
    return WEIR_OK;
}

/* theirs + ours, though `add` can only add to what stands first: through the spare, a little at a
 * time. */
static weir_err add_before(weir_talk *t, char *ours, const char *theirs, size_t bytes)
{
    size_t most = WEIR_TALK_SPARE / t->unit * t->unit;

    if (!most)
        return weir_fail(WEIR_MISFIT,
                         "units of %zu bytes are longer than this collective can add in order: %d",
                         t->unit, WEIR_TALK_SPARE);
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < most ? bytes - done : most;
        memcpy(t->spare, theirs + done, n);
        t->sum->add(t->spare, ours + done, n / t->unit);
        memcpy(ours + done, t->spare, n);
        done += n;
    }
    return WEIR_OK;
}

static weir_err misfit(const weir_net_op *op, size_t wanted)
{
    return weir_fail(
        WEIR_MISFIT,
        "rank %d sent %zu bytes where %zu were expected: the ranks do not run the same collective",
        op->peer, op->len, wanted);
}

weir_err weir_talk_flow_take(weir_talk *t, weir_talk_flow *f, int k, weir_talk_how how)
{
    weir_net_op *op = op_of(t, f, k);
    size_t bytes;
    char *at = segment(t, f, k, &bytes);
    weir_err err = weir_net_wait_all(t->net, op, 1, 0);

    if (err == WEIR_BIG || (!err && (op->len != bytes || (op->tag ^ f->tag) & CHECK_MASK)))
        return misfit(op, bytes);
    WEIR_TRY(err);
    if (at && bytes && how == WEIR_TALK_AFTER)
        t->sum->add(at, op->data, bytes / t->unit);
    if (at && bytes && how == WEIR_TALK_BEFORE)
        WEIR_TRY(add_before(t, at, op->data, bytes));
    weir_net_release(t->net, op);
    if (f->begun < f->segments)
        post(t, f);
    return WEIR_OK;
}

/* ---- several ---- */

/* Legs that go and come at the same time. */
typedef struct trade {
    weir_talk_flow *out[WEIR_TALK_FLOWS], *in[WEIR_TALK_FLOWS];
    int outs, ins, segments; /* segments: of the longest */
    weir_talk_how how;
    bool shared; /* what comes in lies where something goes out */
} trade;

static weir_err trade_segment(weir_talk *t, const trade *x, int k)
{
    for (int i = 0; i < x->outs; i++)
        while (x->out[i]->begun < x->out[i]->segments && x->out[i]->begun < k + t->window)
            WEIR_TRY(weir_talk_flow_send(t, x->out[i], x->out[i]->begun));
    if (x->shared)
        WEIR_TRY(weir_net_wait_all(t->net, op_of(t, x->out[0], k), 1, 0));
    for (int i = 0; i < x->ins; i++)
        if (k < x->in[i]->segments)
            WEIR_TRY(weir_talk_flow_take(t, x->in[i], k, x->how));
    return WEIR_OK;
}

static weir_err open_trade(weir_talk *t, trade *x, const weir_talk_leg *out,
                           const weir_talk_leg *in)
{
    for (int i = 0; i < x->ins; i++) {
        WEIR_TRY(weir_talk_flow_open(t, &in[i], false, x->how, &x->in[i]));
        x->segments = x->in[i]->segments > x->segments ? x->in[i]->segments : x->segments;
    }
    for (int i = 0; i < x->outs; i++) {
        WEIR_TRY(weir_talk_flow_open(t, &out[i], true, x->how, &x->out[i]));
        x->segments = x->out[i]->segments > x->segments ? x->out[i]->segments : x->segments;
    }
    return WEIR_OK;
}

weir_err weir_talk_trade(weir_talk *t, const weir_talk_leg *out, int outs, const weir_talk_leg *in,
                         int ins, weir_talk_how how)
{
    trade x = {.outs = outs, .ins = ins, .how = how};

    x.shared = outs == 1 && ins == 1 && how != WEIR_TALK_LAND && out->at == in->at && out->bytes;
    if (outs + ins > WEIR_TALK_FLOWS)
        return weir_fail(WEIR_FAILED, "%d legs at once; %d are the most", outs + ins,
                         WEIR_TALK_FLOWS);
    WEIR_TRY(open_trade(t, &x, out, in));
    for (int k = 0; k < x.segments; k++)
        WEIR_TRY(trade_segment(t, &x, k));
    return WEIR_OK;
}

/* ---- the end ---- */

static void take_back(weir_talk *t, weir_talk_flow *f)
{
    weir_net_op *op[WEIR_TALK_WINDOW];
    int n = f->begun < t->window ? f->begun : (int)t->window;

    for (int i = 0; i < n; i++)
        op[i] = &f->op[i];
    if (f->peer >= 0)
        weir_net_cancel(t->net, op, n);
    f->peer = -1;
}

weir_err weir_talk_end(weir_talk *t, weir_err err)
{
    for (int i = 0; i < t->flows && !err; i++)
        err = finish(t, &t->flow[i]);
    for (int i = 0; i < t->flows && err; i++)
        take_back(t, &t->flow[i]);
    return err;
}
