/* ledger.c - see ledger.h. */
#include "exchange/ledger.h"
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, ASK = 1, ANSWER = 2 /* parts of the tag; 0 is the state itself */ };
enum { LACKS, OVER, OVER_AFTER_SOME }; /* what a head says */

typedef struct head {
    char magic[2];
    uint8_t version, says;
    int32_t generation;
    uint64_t number; /* of the message that is asked for; OVER: the step of message 0 */
    double base;
    uint32_t each, members;
} head;
_Static_assert(sizeof(head) == 32, "the head has no holes");

/* ---- what it says ---- */

weir_err weir_ledger_reserve(weir_ledger *l, int members, weir_arena *arena)
{
    weir_ledger_entry *entry;

    if (members <= l->room)
        return WEIR_OK;
    if (!(entry = WEIR_NEW(arena, weir_ledger_entry, members)))
        return weir_fail_nomem((size_t)members * sizeof *entry);
    if (l->members)
        memcpy(entry, l->entry, (size_t)l->members * sizeof *entry);
    l->entry = entry;
    l->room = members;
    return WEIR_OK;
}

uint64_t *weir_ledger_count(const weir_ledger *l, int generation, int rank)
{
    for (int i = 0; i < l->members && l->generation == generation; i++)
        if (l->entry[i].rank == rank)
            return &l->entry[i].count;
    return NULL;
}

uint64_t weir_ledger_whole(const weir_ledger *l)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < l->members; i++)
        if (l->entry[i].count < least)
            least = l->entry[i].count;
    return l->first + (l->members ? least / (uint64_t)l->each : 0);
}

uint64_t weir_ledger_untouched(const weir_ledger *l)
{
    uint64_t most = 0;

    for (int i = 0; i < l->members; i++)
        if (l->entry[i].count > most)
            most = l->entry[i].count;
    return l->first + (l->members ? (most + (uint64_t)l->each - 1) / (uint64_t)l->each : 0);
}

/* ---- on the source ---- */

static uint64_t tag_of(const weir_ledger_talk *t, uint32_t part)
{
    return weir_tag(WEIR_CHANNEL_STATE, (uint32_t)t->list->generation, part);
}

/* What is under way with one member. */
typedef struct call {
    int rank;
    uint64_t *count; /* in the ledger; NULL: nothing is asked of it, or nothing more */
    head what;
    weir_net_op out, in;
} call;

static void hang_up(const weir_ledger_talk *t, call *c)
{
    weir_net_cancel(t->net, (weir_net_op *[]){&c->out, &c->in}, 2);
    c->count = NULL;
}

static void ask(const weir_ledger_talk *t, const weir_ledger *l, call *c)
{
    c->what = (head){.magic = {'W', 'L'},
                     .version = VERSION,
                     .generation = l->generation,
                     .number = *c->count};
    weir_net_recv(t->net, c->rank, tag_of(t, ANSWER), NULL, 0, &c->in);
    weir_net_send(t->net, c->rank, tag_of(t, ASK), &c->what, sizeof c->what, &c->out);
}

static weir_err wait_for(weir_net *net, weir_net_op *op)
{
    int which;

    WEIR_TRY(weir_net_wait(net, &op, 1, 0, &which));
    return weir_net_why(net, op);
}

static weir_err hear(const weir_ledger_talk *t, call *c)
{
    weir_err err;

    if (wait_for(t->net, &c->out) || wait_for(t->net, &c->in) || !c->in.len) {
        hang_up(t, c); /* it has no more, or is lost */
        return WEIR_OK;
    }
    err = t->apply(t->self, c->rank, *c->count, c->in.data, c->in.len);
    weir_net_release(t->net, &c->in);
    ++*c->count;
    return err;
}

/* One message of each, until all have no more. */
static weir_err ask_all(const weir_ledger_talk *t, const weir_ledger *l, call *c, bool *any)
{
    weir_err err = WEIR_OK;
    bool more = true;

    while (more && !err) {
        more = false;
        for (int i = 0; i < t->list->count; i++)
            if (c[i].count)
                ask(t, l, &c[i]);
        for (int i = 0; i < t->list->count && !err; i++) {
            if (c[i].count)
                err = hear(t, &c[i]);
            more |= c[i].count != NULL;
        }
        *any |= more;
    }
    for (int i = 0; i < t->list->count && err; i++)
        hang_up(t, &c[i]);
    return err;
}

static call *make_calls(const weir_ledger_talk *t)
{
    call *c = calloc((size_t)t->list->count, sizeof *c);

    for (int i = 0; c && i < t->list->count; i++) {
        c[i].rank = t->list->member[i];
        c[i].out.done = c[i].in.done = true;
    }
    return c;
}

weir_err weir_ledger_collect(const weir_ledger_talk *t, weir_ledger *l, bool *any)
{
    call *c = make_calls(t);
    weir_err err;

    *any = false;
    if (!c)
        return weir_fail_nomem((size_t)t->list->count * sizeof *c);
    for (int i = 0; i < t->list->count; i++)
        if (c[i].rank != t->list->source)
            c[i].count = weir_ledger_count(l, l->generation, c[i].rank);
    err = ask_all(t, l, c, any);
    free(c);
    return err;
}

weir_err weir_ledger_tell(const weir_ledger_talk *t, const weir_ledger *l, bool any)
{
    size_t entries = (size_t)l->members * sizeof *l->entry, len = sizeof(head) + entries;
    char *bytes = malloc(len);
    call *c = make_calls(t);
    head h = {.magic = {'W', 'L'},
              .version = VERSION,
              .says = any ? OVER_AFTER_SOME : OVER,
              .generation = l->generation,
              .number = l->first,
              .base = l->base,
              .each = (uint32_t)l->each,
              .members = (uint32_t)l->members};

    if (!bytes || !c)
        return free(bytes), free(c), weir_fail_nomem(len);
    memcpy(bytes, &h, sizeof h);
    if (entries)
        memcpy(bytes + sizeof h, l->entry, entries);
    for (int i = 0; i < t->list->count; i++)
        if (c[i].rank != t->list->source)
            weir_net_send(t->net, c[i].rank, tag_of(t, ASK), bytes, len, &c[i].out);
    for (int i = 0; i < t->list->count; i++)
        if (wait_for(t->net, &c[i].out)) /* one that is lost is nobody's concern here */
            hang_up(t, &c[i]);
    free(bytes);
    free(c);
    return WEIR_OK;
}

/* ---- on the others ---- */

static weir_err bad(const weir_ledger_talk *t, size_t len)
{
    return weir_fail(WEIR_INVALID,
                     "rank %d sent %zu bytes that make no sense as a question for what it lacks",
                     t->list->source, len);
}

static weir_err read_ledger(const weir_ledger_talk *t, const head *h, const weir_net_op *op,
                            weir_ledger *told, weir_arena *arena)
{
    size_t entries = (size_t)h->members * sizeof *told->entry;

    if (h->members > WEIR_MEMBERS_MAX || op->len != sizeof *h + entries ||
        (h->members && (!h->each || h->each > INT32_MAX)))
        return bad(t, op->len);
    WEIR_TRY(weir_ledger_reserve(told, (int)h->members, arena));
    told->generation = h->generation;
    told->first = h->number;
    told->each = (int)h->each;
    told->base = h->base;
    told->members = (int)h->members;
    if (entries)
        memcpy(told->entry, (const char *)op->data + sizeof *h, entries);
    return WEIR_OK;
}

static weir_err answer(const weir_ledger_talk *t, const head *h)
{
    size_t len = 0;
    const void *data = t->sent(t->self, h->generation, h->number, &len);

    return weir_net_send_wait(t->net, t->list->source, tag_of(t, ANSWER), data ? data : h,
                              data ? len : 0);
}

/* One thing that the source says. */
static weir_err hear_source(const weir_ledger_talk *t, weir_net_op *op, weir_ledger *told,
                            weir_arena *arena, int *says)
{
    head h;

    weir_net_recv(t->net, t->list->source, tag_of(t, ASK), NULL, 0, op);
    WEIR_TRY(wait_for(t->net, op));
    if (op->len < sizeof h)
        return bad(t, op->len);
    memcpy(&h, op->data, sizeof h);
    if (memcmp(h.magic, "WL", 2) || h.version != VERSION || h.says > OVER_AFTER_SOME)
        return bad(t, op->len);
    *says = h.says;
    return h.says == LACKS ? answer(t, &h) : read_ledger(t, &h, op, told, arena);
}

weir_err weir_ledger_answer(const weir_ledger_talk *t, weir_ledger *told, weir_arena *arena,
                            bool *any)
{
    weir_net_op op;
    int says = LACKS;

    while (says == LACKS) {
        op = (weir_net_op){.done = true};
        weir_err err = hear_source(t, &op, told, arena, &says);
        weir_net_cancel(t->net, (weir_net_op *[]){&op}, 1);
        WEIR_TRY(err);
    }
    *any = says == OVER_AFTER_SOME;
    return WEIR_OK;
}
