/* err.c - one slot of text per task. */
#include "core/err.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local weir_why own;
static _Thread_local weir_why *slot;

static weir_why *current(void) { return slot ? slot : &own; }

weir_err weir_fail(weir_err code, const char *format, ...)
{
    weir_why *why = current();
    va_list list;

    va_start(list, format);
    vsnprintf(why->text, sizeof why->text, format, list);
    va_end(list);
    why->code = code;
    return code;
}

weir_err weir_fail_in(weir_err code, const char *format, ...)
{
    weir_why *why = current();
    char words[WEIR_WHY_MAX];
    va_list list;
    size_t n;

    va_start(list, format);
    vsnprintf(words, sizeof words - 2, format, list);
    va_end(list);
    n = strlen(words);
    memcpy(words + n, ": ", 3);
    n += 2;
    strncpy(words + n, why->text, sizeof words - n - 1);
    words[sizeof words - 1] = 0;
    memcpy(why->text, words, sizeof words);
    return code;
}

weir_err weir_fail_nomem(size_t bytes)
{
    return weir_fail(WEIR_FAILED, "out of memory: %zu bytes were asked for", bytes);
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
    case WEIR_OK: return "ok";
    case WEIR_FAILED: return "failed";
    case WEIR_USAGE: return "usage";
    case WEIR_LOST: return "peer lost";
    case WEIR_SILENT: return "peer silent";
    case WEIR_DIVERGED: return "replicas disagree";
    case WEIR_DAMAGED: return "checkpoint damaged";
    case WEIR_DISK: return "write failed";
    case WEIR_DENIED: return "not authorised";
    case WEIR_MISFIT: return "settings do not fit together";
    case WEIR_INVALID: return "invalid file";
    case WEIR_NAN: return "not a number";
    case WEIR_LATE: return "deadline passed";
    case WEIR_STALE: return "stale";
    case WEIR_BIG: return "too large";
    case WEIR_SHUT: return "shut";
    }
    return "unknown";
}

int weir_err_exit(weir_err code) { return code < 100 ? (int)code : WEIR_FAILED; }
