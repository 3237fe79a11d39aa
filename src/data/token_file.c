/* token_file.c - reading llm.c's and nanoGPT's tokens. */
#include "data/token_file.h"
#include <endian.h>
#include <string.h>

enum { HEADER = 256 * 4 };

static const struct {
    uint32_t magic, version;
    int width;
} kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static uint32_t word(const unsigned char *bytes, int i)
{
    uint32_t x;

    memcpy(&x, bytes + 4 * i, sizeof x);
    return le32toh(x);
}

static weir_err parse_header(const char *name, const unsigned char *b, size_t n, uint32_t version,
                             weir_token_file *f)
{
    uint64_t found;

    if (n < HEADER)
        return weir_fail(WEIR_INVALID,
                         "%s: it ends within its header: %zu bytes were found, %d were expected",
                         name, n, HEADER);
    if (word(b, 1) != version)
        return weir_fail(WEIR_INVALID, "%s: version %u was found, %u was expected", name,
                         word(b, 1), version);
    found = n - HEADER;
    f->tokens = word(b, 2);
    f->token = b + HEADER;
    if (found != f->tokens * (uint64_t)f->width)
        return weir_fail(WEIR_INVALID,
                         "%s: %llu bytes of tokens were found, its header promises %llu: it is %s",
                         name, (unsigned long long)found,
                         (unsigned long long)(f->tokens * (uint64_t)f->width),
                         found < f->tokens * (uint64_t)f->width ? "cut short" : "too long");
    return f->tokens ? WEIR_OK : weir_fail(WEIR_INVALID, "%s: it has no tokens", name);
}

weir_err weir_token_file_parse(const char *name, const void *bytes, size_t n, weir_token_file *f)
{
    uint32_t magic = n >= 4 ? word(bytes, 0) : 0;
    weir_token_file made = {.name = name, .width = 2, .token = bytes, .tokens = n / 2};
    size_t i = 0;

    while (i < sizeof kinds / sizeof *kinds && kinds[i].magic != magic)
        i++;
    if (i < sizeof kinds / sizeof *kinds) {
        made.width = kinds[i].width;
        WEIR_TRY(parse_header(name, bytes, n, kinds[i].version, &made));
    } else if (magic / 10000 == 2024) { /* llm.c dates its magics; as two tokens, the first would be
                                           beyond those of GPT-2 */
        return weir_fail(WEIR_INVALID,
                         "%s: it begins with %u: a file of llm.c's, but tokens begin with %u or %u",
                         name, magic, kinds[0].magic, kinds[1].magic);
    } else if (!n || n % 2) {
        return weir_fail(WEIR_INVALID, "%s: %zu bytes were found; tokens of 2 bytes were expected",
                         name, n);
    }
    *f = made;
    return WEIR_OK;
}

weir_err weir_token_file_copy(const weir_token_file *f, void *to, uint64_t vocabulary,
                              uint32_t *most)
{
    uint32_t largest = *most;

    for (uint64_t i = 0; i < f->tokens; i++) {
        const unsigned char *b = f->token + i * (uint64_t)f->width;
        uint32_t x = f->width == 2 ? (uint32_t)(b[0] | b[1] << 8) : word(b, 0);
        if (x >= vocabulary)
            return weir_fail(WEIR_INVALID, "%s: token %llu (from 0) is %u; 0 to %llu was expected",
                             f->name, (unsigned long long)i, x, (unsigned long long)vocabulary - 1);
        if (f->width == 2)
            ((uint16_t *)to)[i] = (uint16_t)x;
        else
            ((uint32_t *)to)[i] = x;
        largest = x > largest ? x : largest;
    }
    *most = largest;
    return WEIR_OK;
}
