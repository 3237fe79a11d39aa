/* frame.c - heads and the bodies of words: made here, and believed only after they were checked here. */
#include "net/frame.h"
#include "core/hash.h"
#include <math.h>
#include <string.h>

_Static_assert(sizeof(weir_frame) == 48 && sizeof(weir_hello) == 72 && sizeof(weir_cause) == 304, "no holes on the wire");

static uint32_t sum_of(const weir_frame *f) { return (uint32_t)weir_hash(f, offsetof(weir_frame, sum), WEIR_FRAME_MAGIC); }

void weir_frame_seal(weir_frame *f)
{
    f->magic = WEIR_FRAME_MAGIC;
    f->version = WEIR_FRAME_VERSION;
    f->sum = sum_of(f);
}

void weir_frame_make(weir_frame *f, weir_word kind, const weir_net *n, uint64_t tag, size_t len)
{
    *f = (weir_frame){.kind = (uint16_t)kind, .generation = n->generation, .from = (uint32_t)n->rank, .tag = tag, .len = len};
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
    if (f.kind < WEIR_WORD_DATA || f.kind >= WEIR_WORDS || f.from >= (uint32_t)size || f.generation < 0)
        return false;
    *out = f;
    return true;
}

/* Foreign text goes to terminals and logs: it ends inside its field and holds nothing but printable bytes. */
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
    if (c.rank < 0 || c.rank >= size || c.phase < 0 || c.phase >= WEIR_PHASES || c.pid < 0 || !isfinite(c.silent))
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
