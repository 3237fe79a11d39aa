/* log.c - levelled sentences. Level and listener are the one piece of global state in the
 * library. */
#include "core/log.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static struct {
    weir_log_level level;
    char parts[128];
    void (*hear)(void *arg, int level, const char *part, const char *text);
    void *arg;
} setting = {.level = WEIR_LOG_WARN};

static const char *const level_name[] = {"error", "warn", "info", "trace"};
static const char *const known[] = {"WEIR_DEBUG", "WEIR_ISA",  "WEIR_RUN",    "WEIR_BOARD",
                                    "WEIR_KEY",   "WEIR_JOIN", "WEIR_GUESTS", NULL};

static void warn_unknown(void)
{
    for (char **e = environ; *e; e++) {
        size_t n = strcspn(*e, "=");
        const char *const *k = known;
        if (strncmp(*e, "WEIR_", 5))
            continue;
        while (*k && (strlen(*k) != n || strncmp(*k, *e, n)))
            k++;
        if (!*k)
            weir_log(WEIR_LOG_WARN, "env",
                     "the variable %.*s is not known: WEIR_DEBUG, WEIR_ISA and WEIR_KEY are read",
                     (int)n, *e);
    }
}

/* WEIR_DEBUG, as it is now. */
static void read_level(void)
{
    const char *debug = getenv("WEIR_DEBUG");
    size_t n = debug ? strcspn(debug, ",") : 0;
    int level = 0;

    setting.level = WEIR_LOG_WARN;
    snprintf(setting.parts, sizeof setting.parts, "%s", debug ? debug + n : "");
    if (!debug)
        return;
    while (level < 4 && (strlen(level_name[level]) != n || strncmp(level_name[level], debug, n)))
        level++;
    if (level < 4)
        setting.level = (weir_log_level)level;
    else
        weir_log(WEIR_LOG_WARN, "env", "WEIR_DEBUG=%s: the levels are warn, info and trace", debug);
}

void weir_on_log(void (*hear)(void *, int, const char *, const char *), void *arg)
{
    setting.hear = hear;
    setting.arg = arg;
    if (!hear)
        return;
    read_level();
    warn_unknown();
}

/* is `part` one of ",a,b,c"; an empty list names all */
static bool listed(const char *part)
{
    size_t n = strlen(part);

    if (!setting.parts[0])
        return true;
    for (const char *p = setting.parts; (p = strstr(p, part)); p += n)
        if (p[-1] == ',' && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

bool weir_log_on(weir_log_level level, const char *part)
{
    if (!setting.hear)
        return false;
    return level <= WEIR_LOG_WARN ? level <= setting.level : level <= setting.level && listed(part);
}

void weir_log(weir_log_level level, const char *part, const char *format, ...)
{
    char text[1300];
    va_list list;

    if (!weir_log_on(level, part))
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    setting.hear(setting.arg, (int)level, part, text);
}
