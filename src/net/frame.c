/* frame.c - heads and the bodies of words: made here, and believed only after they were checked
 * here. */
#include "net/frame.h"
#include "core/hash.h"
#include <math.h>
#include <string.h>

_Static_assert(sizeof(weir_frame) == 48 && sizeof(weir_hello) == 72 && sizeof(weir_cause) == 304,
               "no holes on the wire");
_Static_assert(sizeof(weir_meet_entry) == 160 && sizeof(weir_meet_join) == 280 &&
                   sizeof(weir_meet_table) == 32 && sizeof(weir_meet_knock) == 224 &&
                   sizeof(weir_meet_admit) == 40 && sizeof(weir_meet_refusal) == 424,
               "no holes at the rendezvous");
enum { MEET_MAGIC = 0x4d494557, MEET_VERSION = 1 }; /* "WEIM" */

static uint32_t sum_of(const weir_frame *f)
{
    return (uint32_t)weir_hash(f, offsetof(weir_frame, sum), WEIR_FRAME_MAGIC);
}

void weir_frame_seal(weir_frame *f)
{
    f->magic = WEIR_FRAME_MAGIC;
    f->version = WEIR_FRAME_VERSION;
    f->sum = sum_of(f);
}

void weir_frame_make(weir_frame *f, weir_frame_kind kind, const weir_net *n, uint64_t tag,
                     size_t len)
{
    *f = (weir_frame){.kind = (uint16_t)kind,
                      .generation = n->generation,
                      .from = (uint32_t)n->rank,
                      .tag = tag,
                      .len = len};
    f->doing = atomic_load_explicit(&n->doing, memory_order_relaxed);
    weir_frame_seal(f);
}

bool weir_frame_read(const void *bytes, size_t n, int size, weir_frame *out)
{
    weir_frame f;

    if (n != sizeof f)
        return false;
    memcpy(&f, bytes, sizeof f);
    if (f.magic != WEIR_FRAME_MAGIC || f.version != WEIR_FRAME_VERSION || f.sum != sum_of(&f))
        return false;
    if (f.kind < WEIR_FRAME_DATA || f.kind >= WEIR_FRAME_KINDS || f.from >= (uint32_t)size ||
        f.generation < 0)
        return false;
    *out = f;
    return true;
}

/* Foreign text goes to terminals and logs: it ends inside its field and holds nothing but printable
 * bytes. */
static void tame(char *text, size_t room)
{
    text[room - 1] = 0;
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
}

bool weir_hello_read(const void *bytes, size_t n, weir_hello *out)
{
    if (n != sizeof *out)
        return false;
    memcpy(out, bytes, n);
    tame(out->host, sizeof out->host);
    return out->pid >= 0;
}

bool weir_cause_read(const void *bytes, size_t n, int size, weir_fault *out)
{
    weir_cause c;

    if (n != sizeof c)
        return false;
    memcpy(&c, bytes, n);
    if (c.rank < 0 || c.rank >= size || c.phase < 0 || c.phase >= WEIR_PHASES || c.pid < 0 ||
        !isfinite(c.silent))
        return false;
    if ((c.code != WEIR_LOST && c.code != WEIR_SILENT) || c.cause < 0 || c.cause > 255)
        return false;
    *out = (weir_fault){.code = (weir_err)c.code,
                        .cause = (weir_err)c.cause,
                        .rank = c.rank,
                        .pid = c.pid,
                        .phase = (weir_phase)c.phase,
                        .step = c.step,
                        .silent = c.silent};
    memcpy(out->host, c.host, sizeof out->host);
    memcpy(out->what, c.what, sizeof out->what);
    tame(out->host, sizeof out->host);
    tame(out->what, sizeof out->what);
    return true;
}

void weir_cause_make(const weir_fault *f, weir_cause *c)
{
    *c = (weir_cause){.code = (int32_t)f->code,
                      .cause = (int32_t)f->cause,
                      .rank = f->rank,
                      .pid = f->pid,
                      .phase = (int32_t)f->phase,
                      .step = f->step,
                      .silent = f->silent};
    memcpy(c->host, f->host, sizeof c->host);
    memcpy(c->what, f->what, sizeof c->what);
}

/* ---- the rendezvous ---- */

static uint32_t meet_sum(const weir_meet_head *h, const void *rest, size_t len)
{
    weir_meet_head bare = *h;

    bare.sum = 0;
    return (uint32_t)weir_hash(rest, len, weir_hash(&bare, sizeof bare, MEET_MAGIC));
}

void weir_meet_seal(void *message, weir_meet kind, size_t len)
{
    weir_meet_head *h = message;

    *h = (weir_meet_head){.magic = MEET_MAGIC,
                          .version = MEET_VERSION,
                          .kind = (uint16_t)kind,
                          .len = (uint32_t)len};
    h->sum = meet_sum(h, h + 1, len - sizeof *h);
}

weir_meet weir_meet_kind(const void *bytes, size_t n)
{
    weir_meet_head h;

    if (n < sizeof h)
        return (weir_meet)0;
    memcpy(&h, bytes, sizeof h);
    if (h.magic != MEET_MAGIC || h.version != MEET_VERSION || h.len != n ||
        h.kind < WEIR_MEET_JOIN || h.kind >= WEIR_MEETS)
        return (weir_meet)0;
    return h.sum == meet_sum(&h, (const char *)bytes + sizeof h, n - sizeof h) ? (weir_meet)h.kind
                                                                               : (weir_meet)0;
}

bool weir_meet_entry_good(weir_meet_entry *s)
{
    bool loopback;

    tame(s->host, sizeof s->host);
    s->at[sizeof s->at - 1] = 0;
    return s->pid >= 0 && (!strcmp(s->at, WEIR_MEET_HERE) || weir_address_good(s->at, &loopback));
}

bool weir_meet_join_read(const void *bytes, size_t n, weir_meet_join *out)
{
    if (weir_meet_kind(bytes, n) != WEIR_MEET_JOIN || n != sizeof *out)
        return false;
    memcpy(out, bytes, n);
    tame(out->program, sizeof out->program);
    tame(out->job, sizeof out->job);
    return out->rank >= 0 && out->size >= 1 && (uint32_t)out->rank < out->size &&
           weir_meet_entry_good(&out->entry);
}

bool weir_meet_table_read(const void *bytes, size_t n, int size, uint64_t *run,
                          weir_meet_entry *entry)
{
    weir_meet_table t;

    if (weir_meet_kind(bytes, n) != WEIR_MEET_TABLE || n != sizeof t + (size_t)size * sizeof *entry)
        return false;
    memcpy(&t, bytes, sizeof t);
    if (t.size != (uint32_t)size)
        return false;
    memcpy(entry, (const char *)bytes + sizeof t, (size_t)size * sizeof *entry);
    for (int i = 0; i < size; i++)
        if (!weir_meet_entry_good(&entry[i]))
            return false;
    *run = t.run;
    return true;
}

bool weir_meet_knock_read(const void *bytes, size_t n, weir_meet_knock *out)
{
    if (weir_meet_kind(bytes, n) != WEIR_MEET_KNOCK || n != sizeof *out)
        return false;
    memcpy(out, bytes, n);
    tame(out->program, sizeof out->program);
    return weir_meet_entry_good(&out->entry);
}

bool weir_meet_admit_read(const void *bytes, size_t n, const weir_meet_admit **out)
{
    const weir_meet_admit *a = bytes;

    if (weir_meet_kind(bytes, n) != WEIR_MEET_ADMIT || n < sizeof *a || (uintptr_t)bytes & 7)
        return false;
    if (a->entries > 1 << 20 || n != sizeof *a + a->entries * sizeof a->entry[0] + a->list ||
        a->rank < 0 || (uint32_t)a->rank >= a->entries)
        return false;
    *out = a;
    return true;
}

bool weir_meet_refusal_read(const void *bytes, size_t n, weir_meet_refusal *out)
{
    if (weir_meet_kind(bytes, n) != WEIR_MEET_NO || n != sizeof *out)
        return false;
    memcpy(out, bytes, n);
    tame(out->why, sizeof out->why);
    return out->code > 0 && out->code < 100;
}
