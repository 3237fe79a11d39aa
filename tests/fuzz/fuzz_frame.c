/* fuzz_frame.c - heads, greetings and faults as a hostile peer would send them. */
#include "net/frame.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weir_frame f;
    weir_hello h;
    weir_fault fault;
    char text[400];

    if (size >= sizeof f) { /* as it came, and with a checksum that fits */
        memcpy(&f, data, sizeof f);
        weir_frame_seal(&f);
        if (weir_frame_read(&f, sizeof f, 5, &f) && (f.from >= 5 || f.kind >= WEIR_WORDS || f.generation < 0))
            abort();
    }
    if (weir_frame_read(data, size, 5, &f) && f.from >= 5)
        abort();
    if (weir_hello_read(data, size, &h) && (strnlen(h.host, sizeof h.host) == sizeof h.host || h.pid < 0))
        abort();
    if (weir_cause_read(data, size, 5, &fault)) {
        if (fault.rank < 0 || fault.rank >= 5 || strnlen(fault.what, sizeof fault.what) == sizeof fault.what)
            abort();
        weir_loss_text(&fault, text, sizeof text);
        for (const char *c = text; *c; c++)
            if ((unsigned char)*c < ' ')
                abort();
    }
    return 0;
}
