/* message.c - see message.h. */
#include "codec/message.h"
#include "core/hash.h"
#include <string.h>

enum { VERSION = 2 };

typedef struct head {
    char magic[2];
    uint8_t version, mark;
    uint32_t floats, body, sum;
} head;
_Static_assert(sizeof(head) == WEIR_MESSAGE_HEAD, "the head has no holes");

static uint32_t sum_of(const head *h) { return (uint32_t)weir_hash(h, offsetof(head, sum), 0); }

size_t weir_message_head(void *msg, const weir_codec *codec, size_t floats, size_t body)
{
    head h = {{'W', 'C'}, VERSION, (uint8_t)codec->mark, (uint32_t)floats, (uint32_t)body, 0};

    h.sum = sum_of(&h);
    memcpy(msg, &h, sizeof h);
    return sizeof h + body;
}

weir_err weir_message_bad(const weir_codec *codec, const char *what)
{
    return weir_fail(WEIR_INVALID, "a message of the codec %s makes no sense: %s", codec->plug.name,
                     what);
}

weir_err weir_message_open(const void *msg, size_t bytes, const weir_codec *codec, size_t floats,
                           const unsigned char **body, size_t *len)
{
    head h;

    if (bytes < sizeof h)
        return weir_message_bad(codec, "it is shorter than its head");
    memcpy(&h, msg, sizeof h);
    if (memcmp(h.magic, "WC", 2) || h.sum != sum_of(&h))
        return weir_message_bad(codec, "its head is damaged");
    if (h.version != VERSION)
        return weir_fail(WEIR_INVALID,
                         "a message of the codec %s is of version %d, this program knows %d",
                         codec->plug.name, h.version, VERSION);
    if (h.mark != (uint8_t)codec->mark)
        return weir_message_bad(codec, "it is another codec's");
    if (h.floats != floats || h.body != bytes - sizeof h)
        return weir_message_bad(codec,
                                "it is of another length, or for a bucket of another length");
    *body = (const unsigned char *)msg + sizeof h;
    *len = h.body;
    return WEIR_OK;
}
