/* log.c - levelled lines on stderr. The level is the one piece of global state in the library. */
#include "core/log.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static struct {
    weir_log_level level;
    char parts[128], name[64];
} setting = {.level = WEIR_LOG_WARN};

static const char *const level_name[] = {"error", "warn", "info", "trace"};
static const char *const known[] = {"WEIR_DEBUG", "WEIR_ISA", "WEIR_RUN",
                                    "WEIR_BOARD", "WEIR_KEY", NULL};

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

void weir_log_setup(void)
{
    const char *debug = getenv("WEIR_DEBUG");

    if (debug) {
        size_t n = strcspn(debug, ",");
        int level = 0;
        while (level < 4 &&
               (strlen(level_name[level]) != n || strncmp(level_name[level], debug, n)))
            level++;
        if (level < 4)
            setting.level = (weir_log_level)level;
        snprintf(setting.parts, sizeof setting.parts, "%s", debug[n] ? debug + n : "");
        if (level == 4)
            weir_log(WEIR_LOG_WARN, "env", "WEIR_DEBUG=%s: the levels are warn, info and trace",
                     debug);
    }
    warn_unknown();
}

void weir_log_name(const char *name) { snprintf(setting.name, sizeof setting.name, "%s", name); }

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
    return level <= WEIR_LOG_WARN ? level <= setting.level : level <= setting.level && listed(part);
}

void weir_log(weir_log_level level, const char *part, const char *format, ...)
{
    char line[1400];
    va_list list;
    int n;

    if (!weir_log_on(level, part))
        return;
    n = snprintf(line, sizeof line, "weir: %s%s%s", setting.name, setting.name[0] ? ": " : "",
                 level == WEIR_LOG_WARN ? "warning: " : "");
    if (level >= WEIR_LOG_INFO)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s: ", part);
    va_start(list, format);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, format, list);
    va_end(list);
    strcat(line, "\n");
    fputs(line, stderr);
}
