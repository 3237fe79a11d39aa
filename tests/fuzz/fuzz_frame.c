/* fuzz_frame.c - heads, greetings, faults and the messages of the rendezvous as a hostile peer
 * would send them. */
#include "net/frame.h"
#include <stdlib.h>
#include <string.h>

static void check_text(const char *text, size_t room)
{
    if (strnlen(text, room) == room)
        abort();
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ')
            abort();
}

static void meet(const void *data, size_t size)
{
    weir_meet_join j;
    weir_meet_refusal no;
    weir_meet_entry entry[3];
    uint64_t run;
    bool loopback;

    if (weir_meet_join_read(data, size, &j)) {
        check_text(j.entry.host, sizeof j.entry.host);
        check_text(j.entry.at, sizeof j.entry.at);
        check_text(j.program, sizeof j.program);
        check_text(j.job, sizeof j.job);
        if (j.rank < 0 || (uint32_t)j.rank >= j.size || !weir_address_good(j.entry.at, &loopback))
            abort();
    }
    for (int n = 1; n <= 3; n++)
        if (weir_meet_table_read(data, size, n, &run, entry))
            for (int i = 0; i < n; i++)
                check_text(entry[i].at, sizeof entry[i].at);
    if (weir_meet_refusal_read(data, size, &no))
        check_text(no.why, sizeof no.why);
}

/* as it came, and with a head that fits */
static void meet_both(const uint8_t *data, size_t size)
{
    void *copy;

    meet(data, size);
    if (size < sizeof(weir_meet_head) || !(copy = malloc(size)))
        return;
    for (int kind = WEIR_MEET_JOIN; kind < WEIR_MEETS; kind++) {
        memcpy(copy, data, size);
        weir_meet_seal(copy, (weir_meet)kind, size);
        meet(copy, size);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weir_frame f;
    weir_hello h;
    weir_fault fault;
    char text[400];

    meet_both(data, size);
    if (size >= sizeof f) { /* as it came, and with a checksum that fits */
        memcpy(&f, data, sizeof f);
        weir_frame_seal(&f);
        if (weir_frame_read(&f, sizeof f, 5, &f) &&
            (f.from >= 5 || f.kind >= WEIR_FRAME_KINDS || f.generation < 0))
            abort();
    }
    if (weir_frame_read(data, size, 5, &f) && f.from >= 5)
        abort();
    if (weir_hello_read(data, size, &h) &&
        (strnlen(h.host, sizeof h.host) == sizeof h.host || h.pid < 0))
        abort();
    if (weir_cause_read(data, size, 5, &fault)) {
        if (fault.rank < 0 || fault.rank >= 5 ||
            strnlen(fault.what, sizeof fault.what) == sizeof fault.what)
            abort();
        weir_fault_text(&fault, text, sizeof text);
        for (const char *c = text; *c; c++)
            if ((unsigned char)*c < ' ')
                abort();
    }
    return 0;
}
