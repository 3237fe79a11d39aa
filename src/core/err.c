/* err.c - one slot of text per task. */
#include "core/err.h"
#include <stdarg.h>
#include <stdio.h>

static _Thread_local weir_why own;
static _Thread_local weir_why *slot;

static weir_why *current(void) { return slot ? slot : &own; }

/* Takes a sentence over. It may quote a hostile file, but stays one line, without power over a
 * terminal. */
static weir_err keep(weir_err code, const char *text)
{
    weir_why *why = current();
    size_t i = 0;

    for (; text[i] && i < sizeof why->text - 1; i++)
        why->text[i] = (unsigned char)text[i] < ' ' || text[i] == 127 ? '?' : text[i];
    why->text[i] = 0;
    why->code = code;
    return code;
}

weir_err weir_fail(weir_err code, const char *format, ...)
{
    char text[WEIR_WHY_MAX]; /* the arguments may lie in the slot itself */
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return keep(code, text);
}

weir_err weir_fail_in(weir_err code, const char *format, ...)
{
    char words[WEIR_WHY_MAX / 2], text[WEIR_WHY_MAX + sizeof words + 2];
    va_list list;

    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    snprintf(text, sizeof text, "%s: %s", words, current()->text);
    return keep(code, text);
}

weir_err weir_fail_nomem(size_t bytes)
{
    return bytes ? weir_fail(WEIR_FAILED, "out of memory: %zu bytes were asked for", bytes)
                 : weir_fail(WEIR_FAILED, "out of memory");
}

const char *weir_why_text(void) { return current()->text; }

weir_why *weir_why_use(weir_why *other)
{
    weir_why *before = slot;
    slot = other;
    return before;
}

const char *weir_err_name(weir_err code)
{
    switch (code) {
    case WEIR_OK:
        return "ok";
    case WEIR_FAILED:
        return "failed";
    case WEIR_USAGE:
        return "usage";
    case WEIR_LOST:
        return "peer lost";
    case WEIR_SILENT:
        return "peer silent";
    case WEIR_DIVERGED:
        return "replicas disagree";
    case WEIR_DAMAGED:
        return "checkpoint damaged";
    case WEIR_DISK:
        return "write failed";
    case WEIR_DENIED:
        return "not authorised";
    case WEIR_MISFIT:
        return "settings do not fit together";
    case WEIR_INVALID:
        return "invalid file";
    case WEIR_NAN:
        return "not a number";
    case WEIR_LATE:
        return "deadline passed";
    case WEIR_STALE:
        return "stale";
    case WEIR_BIG:
        return "too large";
    case WEIR_SHUT:
        return "shut";
    }
    return "unknown";
}

int weir_err_exit(weir_err code) { return code < 100 ? (int)code : WEIR_FAILED; }
