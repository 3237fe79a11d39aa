/* sim_wire.c - the links. Words: a message travels in packets. A packet leaves by its sender's
 * port, which is busy for bytes / rate with it; `latency` later its first byte comes to the next
 * pipe, and its last byte bytes / rate after that. A pipe passes packets one after the other: the
 * receiver's port, and between racks the two racks' uplinks before it.
 *
 *   sender's port -> (rack up -> rack down) -> receiver's port
 *
 * So a lone message of n bytes takes latency + n / rate, two messages into one port take twice as
 * long as one, and flows to different receivers share a port packet by packet. The event of a
 * packet stands at the time its last byte would come if no pipe were busy; only if one is does it
 * cost a second event. */
#include "net/sim.h"
#include <stdlib.h>
#include <string.h>

/* Sums of the same times in another order differ in their last digits: that is no queue. */
static double slack(const weir_sim *s) { return 1e-14 * s->now; }

double weir_sim_unit(weir_sim *s) { return ((double)weir_rng_u32(&s->rng) + 0.5) * 0x1p-32; }

static int port_between(const weir_sim *s, int a, int b)
{
    return s->node[a].machine == s->node[b].machine ? WEIR_SIM_MEMORY : WEIR_SIM_WIRE;
}

static int rack_of(const weir_sim *s, int node) { return s->o->rack ? node / (int)s->o->rack : 0; }

double weir_sim_latency(const weir_sim *s, int from, int to)
{
    int port = port_between(s, from, to);
    bool far = port == WEIR_SIM_WIRE && rack_of(s, from) != rack_of(s, to);

    return s->node[from].port[port].latency + (far ? s->o->rack_latency : 0);
}

/* ---- packets on their way ---- */

enum { RACK_UP, RACK_DOWN, DOWN };

static weir_sim_pipe *pipe_of(weir_sim *s, const weir_sim_packet *k)
{
    const weir_sim_parcel *m = k->parcel;

    if (k->stage == DOWN)
        return &s->node[m->to].port[port_between(s, m->from, m->to)].down;
    return k->stage == RACK_UP ? &s->rack_up[rack_of(s, m->from)]
                               : &s->rack_down[rack_of(s, m->to)];
}

static void free_packet(weir_sim *s, weir_sim_packet *k)
{
    if (k == &k->parcel->only)
        return;
    k->next = s->spare_packet;
    s->spare_packet = k;
}

static void arrived(weir_sim *s, weir_sim_packet *k)
{
    weir_sim_parcel *m = k->parcel;

    m->come += k->bytes;
    free_packet(s, k);
    if (m->come == m->msg.len)
        weir_sim_deliver(s, m, false);
}

/* Its last byte has come to a pipe: is it through already? If not, there is an event at the time
 * when it will be. A pipe slower than the one before it begins with the first byte; a faster one
 * needs no more than its own time before the last. */
static bool pass(weir_sim *s, weir_sim_packet *k, weir_sim_pipe *p)
{
    double takes = (double)k->bytes * p->byte,
           wish = k->head > s->now - takes ? k->head : s->now - takes;
    double start = p->busy > wish + slack(s) ? p->busy : wish, done = start + takes;

    if (done < s->now + slack(s))
        done = s->now;
    k->head += start - wish; /* what comes in is passed on at once */
    /* the second copy is read, and thrown away */
    p->busy = done + (k->twice && k->stage == DOWN ? takes : 0);
    if (done <= s->now && !p->waiting)
        return true;
    k->waits = true;
    p->waiting++;
    weir_sim_push(s, done, WEIR_SIM_PACKET, k->parcel->to, k);
    return false;
}

void weir_sim_on_packet(weir_sim *s, weir_sim_packet *k)
{
    for (;; k->stage++) {
        weir_sim_pipe *p = pipe_of(s, k);
        if (k->waits) {
            k->waits = false;
            p->waiting--;
        } else if (!pass(s, k, p)) {
            return;
        }
        if (k->stage == DOWN)
            break;
    }
    arrived(s, k);
}

/* ---- flows ---- */

static size_t hash(int from, int to)
{
    return (size_t)(((uint64_t)(uint32_t)from << 32 | (uint32_t)to) * 0x9e3779b97f4a7c15u >> 32);
}

static bool idle(const weir_sim *s, const weir_sim_flow *f)
{
    return !f->first && (s->ordered || f->tail < s->now);
}

static void free_flow(weir_sim *s, weir_sim_flow **at)
{
    weir_sim_flow *f = *at;

    *at = f->next;
    f->next = s->spare_flow;
    s->spare_flow = f;
    s->flows--;
}

/* Lets idle ones go; if there are many all the same, makes the table larger. */
static void sweep(weir_sim *s)
{
    weir_sim_flow **more, *f, *next, **at;
    size_t room = 2 * s->flow_room;

    for (size_t i = 0; i < s->flow_room; i++)
        for (at = &s->flow[i]; *at;)
            if (idle(s, *at))
                free_flow(s, at);
            else
                at = &(*at)->next;
    if (s->flows < s->flow_room / 2 || !(more = calloc(room, sizeof *more)))
        return; /* without memory it goes on in long chains */
    for (size_t i = 0; i < s->flow_room; i++)
        for (f = s->flow[i]; f; f = next) {
            next = f->next;
            at = &more[hash(f->from, f->to) % room];
            f->next = *at;
            *at = f;
        }
    free(s->flow);
    s->flow = more;
    s->flow_room = room;
}

static weir_sim_flow **find_flow(weir_sim *s, int from, int to)
{
    weir_sim_flow **at = &s->flow[hash(from, to) % s->flow_room];

    while (*at && ((*at)->from != from || (*at)->to != to))
        at = &(*at)->next;
    return at;
}

static weir_sim_flow *get_flow(weir_sim *s, int from, int to)
{
    weir_sim_flow **at = find_flow(s, from, to), *f = *at;

    if (f)
        return f;
    if (s->flows >= s->flow_room) {
        sweep(s);
        at = find_flow(s, from, to);
    }
    if ((f = s->spare_flow))
        s->spare_flow = f->next;
    else if (!(f = malloc(sizeof *f)))
        return s->nomem = true, NULL;
    *f = (weir_sim_flow){.from = from, .to = to};
    f->last = &f->first;
    s->flows++;
    return *at = f;
}

static void take_turn(weir_sim_port *p, weir_sim_flow *f)
{
    f->turn = NULL;
    *p->turn_last = f;
    p->turn_last = &f->turn;
}

/* ---- leaving ---- */

/* What the links do to a packet below the layer that makes them reliable: the sender hears nothing
 * and sends it again. */
static double mishaps(weir_sim *s, weir_sim_packet *k, double takes, weir_sim_port *p)
{
    double late = 0, wait = s->o->rto;

    for (int tries = 0; tries < 15; tries++, wait *= 2) {
        bool dropped = s->o->drop > 0 && weir_sim_unit(s) < s->o->drop;
        /* thrown away by who checks its sum */
        bool corrupt = !dropped && s->o->corrupt > 0 && weir_sim_unit(s) < s->o->corrupt;
        if (!dropped && !corrupt)
            break;
        s->count.mishaps.dropped += dropped;
        s->count.mishaps.corrupted += corrupt;
        late += wait;
        p->free += takes;
    }
    if (s->o->duplicate > 0 && weir_sim_unit(s) < s->o->duplicate) {
        s->count.mishaps.duplicated++;
        k->twice = true;
        p->free += takes;
    }
    return late;
}

/* When its first byte comes to the first pipe. The order of a flow is kept whatever happens; a cut
 * link is silent until it heals. */
static double head_comes(weir_sim *s, weir_sim_packet *k, weir_sim_port *p, weir_sim_flow *f,
                         double at, double takes)
{
    const weir_sim_parcel *m = k->parcel;
    double latency = weir_sim_latency(s, m->from, m->to), since, heals, head;

    if (s->o->jitter > 0) {
        latency += s->o->jitter * latency * weir_sim_unit(s);
        s->count.mishaps.delayed++;
    }
    head = at + latency + mishaps(s, k, takes, p);
    heals = s->cuts ? weir_sim_cut_until(s, m->from, m->to, &since) : 0;
    if (heals >= WEIR_NEVER)
        return WEIR_NEVER;
    if (head < heals + latency && heals > 0)
        head = heals + latency;
    if (f && head < f->tail)
        head = f->tail;
    if (f)
        f->tail = head + takes;
    return head;
}

static weir_sim_packet *get_packet(weir_sim *s, weir_sim_parcel *m, size_t bytes)
{
    weir_sim_packet *k = s->spare_packet;

    if (bytes == m->msg.len)
        return &m->only;
    if (k)
        s->spare_packet = k->next;
    else if (!(k = malloc(sizeof *k)))
        s->nomem = true;
    return k;
}

/* The port is free, and this message is next. */
static void send_packet(weir_sim *s, weir_sim_port *p, weir_sim_flow *f, weir_sim_parcel *m)
{
    size_t left = m->msg.len - m->sent,
           bytes = left < (size_t)s->o->packet ? left : (size_t)s->o->packet;
    double takes = (double)bytes * p->byte, at = s->now + (m->started ? 0 : s->o->overhead);
    int from = m->from, port = port_between(s, from, m->to);
    weir_sim_packet *k = get_packet(s, m, bytes);

    if (!k)
        return;
    *k = (weir_sim_packet){.parcel = m, .bytes = bytes, .stage = DOWN};
    if (port == WEIR_SIM_WIRE && rack_of(s, from) != rack_of(s, m->to))
        k->stage = RACK_UP;
    p->free = at + takes;
    k->head = head_comes(s, k, p, f, at, takes);
    m->sent += bytes;
    m->started = true;
    s->count.packets++;
    if (k->head < WEIR_NEVER)
        weir_sim_push(s, k->head + takes, WEIR_SIM_PACKET, m->to, k);
    else
        free_packet(s, k); /* a link that never heals: the message stays under way for ever */
    if (m->op && m->sent == m->msg.len && !s->o->rendezvous && m->op->len > (size_t)s->o->eager) {
        m->holds |= WEIR_SIM_ACKING;
        weir_sim_push(s, p->free, WEIR_SIM_ACK, from, m);
    }
}

void weir_sim_on_uplink(weir_sim *s, int node, weir_sim_port *p)
{
    weir_sim_flow *f = p->turn;
    weir_sim_parcel *m;

    p->set = false;
    if (!f)
        return;
    if (!(p->turn = f->turn))
        p->turn_last = &p->turn;
    m = f->first;
    send_packet(s, p, f, m);
    if (m->sent == m->msg.len && !(f->first = m->next))
        f->last = &f->first;
    if (f->first)
        take_turn(p, f);
    else if (s->ordered)
        free_flow(s, find_flow(s, f->from, f->to));
    if (p->turn) {
        p->set = true;
        weir_sim_push(s, p->free, WEIR_SIM_UPLINK, node, p);
    }
}

void weir_sim_wire_send(weir_sim *s, weir_sim_parcel *m)
{
    int from = m->from;
    weir_sim_port *p = &s->node[from].port[port_between(s, from, m->to)];
    weir_sim_flow *f;

    if (s->ordered && !p->turn && p->free <= s->now && m->msg.len <= (size_t)s->o->packet) {
        /* nothing before it can be overtaken: no need to keep an order */
        send_packet(s, p, NULL, m);
        return;
    }
    if (!(f = get_flow(s, from, m->to)))
        return;
    if (!f->first)
        take_turn(p, f);
    m->next = NULL;
    *f->last = m;
    f->last = &m->next;
    if (p->set)
        return;
    p->set = true;
    if (p->free <= s->now)
        weir_sim_on_uplink(s, from, p);
    else
        weir_sim_push(s, p->free, WEIR_SIM_UPLINK, from, p);
}

/* A message whose last packet has left still comes. Of the others, packets may come, but never
 * all. */
void weir_sim_unsend(weir_sim *s, int node)
{
    for (int i = 0; i < WEIR_SIM_PORTS; i++) {
        weir_sim_port *p = &s->node[node].port[i];
        for (weir_sim_flow *f = p->turn; f; f = f->turn) {
            f->first = NULL;
            f->last = &f->first;
            if (s->ordered)
                free_flow(s, find_flow(s, f->from, f->to));
        }
        p->turn = NULL;
        p->turn_last = &p->turn;
    }
}

/* ---- open and close ---- */

static void open_port(weir_sim_port *p, double latency, double rate)
{
    *p = (weir_sim_port){.latency = latency, .byte = 8 / rate, .down = {.byte = 8 / rate}};
    p->turn_last = &p->turn;
}

weir_err weir_sim_wire_open(weir_sim *s)
{
    const weir_sim_options *o = s->o;
    double uplink = o->uplink > 0 ? o->uplink : o->rate;

    s->rng = weir_rng_at((uint64_t)o->seed, WEIR_RNG_SIM, 0, 0);
    s->ordered = !(o->jitter > 0) && !(o->drop > 0) && !(o->corrupt > 0) && !s->cuts;
    s->flow_room = 64;
    s->racks = o->rack ? (s->nodes + (int)o->rack - 1) / (int)o->rack : 1;
    s->flow = calloc(s->flow_room, sizeof *s->flow);
    s->rack_up = calloc((size_t)s->racks, sizeof *s->rack_up);
    s->rack_down = calloc((size_t)s->racks, sizeof *s->rack_down);
    if (!s->flow || !s->rack_up || !s->rack_down)
        return weir_fail_nomem((size_t)s->racks * 2 * sizeof *s->rack_up);
    for (int i = 0; i < s->racks; i++)
        s->rack_up[i].byte = s->rack_down[i].byte = 8 / uplink;
    for (int i = 0; i < s->nodes; i++) {
        open_port(&s->node[i].port[WEIR_SIM_WIRE], o->latency, o->rate);
        open_port(&s->node[i].port[WEIR_SIM_MEMORY], o->local_latency, o->local_rate);
    }
    return WEIR_OK;
}

static void free_flows(weir_sim_flow *f)
{
    for (weir_sim_flow *next; f; f = next) {
        next = f->next;
        free(f);
    }
}

void weir_sim_wire_close(weir_sim *s)
{
    for (size_t i = 0; s->flow && i < s->flow_room; i++)
        free_flows(s->flow[i]);
    free_flows(s->spare_flow);
    for (weir_sim_packet *k = s->spare_packet, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    free(s->flow);
    free(s->rack_up);
    free(s->rack_down);
}
