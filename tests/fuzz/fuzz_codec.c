/* Messages of every codec from anybody: an error, or floats added inside the bucket.
 * WEIR_FUZZ=strom: of this one alone. */
#include "codec/codec.h"
#include "codec/message.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every codec there is, as it comes; and some in other settings. */
static const char *const others[] = {"half:bf16", "strom:quanta=5", "redsync:quantise=no",
                                     "qsgd:levels=100", "powersgd:1"};
enum { OTHERS = sizeof others / sizeof *others };

static const char *spec_of(unsigned number)
{
    const char *only = getenv("WEIR_FUZZ");
    unsigned listed = 0;

    if (only)
        return only;
    while (weir_codecs[listed])
        listed++;
    number %= listed + OTHERS;
    return number < listed ? weir_codecs[number]->name : others[number - listed];
}

/* The body is the fuzzer's, the head is made to fit half of the time: else nothing would get past
 * its checksum. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const weir_tensor tensor[] = {
        {.name = "a", .n = 300, .dims = 2, .dim = {20, 15}},
        {.name = "b", .at = 300, .n = 700, .dims = 2, .dim = {7, 100}}};
    static const weir_view view[] = {{&tensor[0], 0, 20, 15, 0}, {&tensor[1], 300, 7, 100, 0}};
    const weir_bucket bucket = {.n = 1000, .view = view, .views = 2};
    const weir_plug *plug;
    void *self;

    if (size < 2)
        return 0;
    const char *spec = spec_of(data[0]);
    bool whole = data[1] & 1;
    weir_arena *arena = weir_arena_new();
    size_t body = size - 2, room = body + WEIR_MESSAGE_HEAD;
    uint8_t *msg = malloc(room);
    float *acc = calloc(bucket.n, sizeof *acc);
    if (arena && msg && acc && !weir_plug_find(weir_codecs, "codec", spec, &plug) &&
        !weir_plug_make(plug, "codec", spec, arena, &self)) {
        const weir_codec *c = (const weir_codec *)plug;
        if (!c->init(self, &bucket, arena)) {
            whole &= c->mark != 0; /* sums have no head */
            if (whole)
                weir_message_head(msg, c, bucket.n, body);
            memcpy(msg + (whole ? WEIR_MESSAGE_HEAD : 0), data + 2, body);
            size_t len = whole ? room : body,
                   first = c->absorb ? weir_codec_usual(c, self, (weir_when){0}) : 0;
            if (first > len)
                first = len;
            if (c->absorb) /* what came of the first round: bytes too */
                c->absorb(self, (weir_when){0}, msg, first);
            c->decode(self, (weir_when){.round = c->rounds - 1}, msg + first, len - first, acc);
        }
    }
    free(msg);
    free(acc);
    weir_arena_free(arena);
    return 0;
}
