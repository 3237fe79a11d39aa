/* fuzz_lessons.c - any bytes as what a checkpoint says that data taught, to the kind that the first
 * byte names: what is let through is whole, and written and read again comes to the same. */
#include "data/data.h"
#include "fuzz.h"

static const weir_plug *kind_of(uint8_t number)
{
    size_t kinds = 0;

    while (weir_datas[kinds])
        kinds++;
    return weir_datas[number % kinds];
}

/* Learns the text; writes what was learnt. NULL: refused, with a sentence. */
static const char *learn(const weir_plug *kind, const char *text, weir_arena *a)
{
    weir_data_use use = {.data = (const weir_data *)kind, .spec = kind->name};
    const char *again = NULL;
    weir_err err;

    check(!weir_plug_make(kind, "data", kind->name, a, &use.self));
    err = weir_data_learn(&use, text, a);
    check(!err || err == WEIR_DAMAGED || err == WEIR_MISFIT || err == WEIR_INVALID);
    check(!err || strlen(weir_why_text()) > 20);
    if (!err)
        check(!weir_data_lessons(&use, a, &again));
    weir_data_close(&use);
    return again;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    weir_arena *a;
    const char *first, *second;
    char *text;

    if (!n)
        return 0;
    check((a = weir_arena_new()));
    check((text = strndup((const char *)data + 1, n - 1)));
    if ((first = learn(kind_of(data[0]), text, a))) {
        second = learn(kind_of(data[0]), first, a);
        check(second && !strcmp(first, second));
    }
    free(text);
    weir_arena_free(a);
    return 0;
}
