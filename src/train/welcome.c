/* welcome.c - see welcome.h. A head, then three texts, each with its zero byte. */
#include "train/welcome.h"
#include "train/elastic.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS = 3, MOST = 16 << 20 };

typedef struct head {
    uint64_t hash[WEIR_DATA_PARTS];
    uint64_t bytes[TEXTS], most;
} head;

void *weir_welcome_write(weir_trainer *t, size_t *n)
{
    char *settings = weir_settings_text(t->set), *bytes = NULL, *at;
    const char *text[TEXTS] = {settings, t->model_file.text, t->lessons ? t->lessons : ""};
    head h = {.most = (uint64_t)weir_elastic_most(t)};

    for (int i = 0; i < WEIR_DATA_PARTS; i++)
        h.hash[i] = weir_data_hash(&t->data, (weir_data_part)i);
    *n = sizeof h;
    for (int i = 0; settings && i < TEXTS; i++)
        *n += h.bytes[i] = strlen(text[i]) + 1;
    if (settings && (bytes = malloc(*n))) {
        memcpy(bytes, &h, sizeof h);
        at = bytes + sizeof h;
        for (int i = 0; i < TEXTS; at += h.bytes[i++])
            memcpy(at, text[i], h.bytes[i]);
    }
    free(settings);
    return bytes;
}

weir_err weir_welcome_read(const void *bytes, size_t n, weir_arena *arena, weir_welcome *w)
{
    const char *at = (const char *)bytes + sizeof(head), *text[TEXTS];
    size_t left = n - sizeof(head);
    head h;

    if (n < sizeof h || n > MOST)
        return weir_fail(WEIR_INVALID, "what was told at the door makes no sense: %zu bytes", n);
    memcpy(&h, bytes, sizeof h);
    for (int i = 0; i < TEXTS; i++) {
        if (!h.bytes[i] || h.bytes[i] > left || strnlen(at, h.bytes[i]) != h.bytes[i] - 1)
            return weir_fail(WEIR_INVALID, "what was told at the door makes no sense: text %d", i);
        if (!(text[i] = weir_copy_text(arena, at)))
            return weir_fail_nomem(h.bytes[i]);
        at += h.bytes[i];
        left -= h.bytes[i];
    }
    if (!h.most || h.most > INT_MAX)
        return weir_fail(WEIR_INVALID, "what was told at the door makes no sense: no workers");
    *w = (weir_welcome){text[0], text[1], text[2], .most = (int)h.most};
    memcpy(w->hash, h.hash, sizeof h.hash);
    return WEIR_OK;
}

weir_err weir_welcome_check(weir_trainer *t, const weir_welcome *w)
{
    static const char *const name[WEIR_DATA_PARTS] = {"training", "test"};

    for (int i = 0; i < WEIR_DATA_PARTS; i++)
        if (weir_data_hash(&t->data, (weir_data_part)i) != w->hash[i])
            return weir_fail(
                WEIR_MISFIT,
                "--data %s: the %s part is not the one of the run that is to be joined",
                t->set->data, name[i]);
    return WEIR_OK;
}
