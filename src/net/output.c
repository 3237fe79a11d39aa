/* output.c - see output.h. */
#include "net/output.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void write_all(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno != EINTR)
            return; /* nobody reads us any more: that is no reason to stop the run */
        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        }
    }
}

/* Could the line, as far as it has come, be a fatal error? */
static bool may_be_error(const weir_output *l)
{
    size_t n = strlen(WEIR_OUTPUT_ERROR);

    return !strncmp(l->line, WEIR_OUTPUT_ERROR, l->len < n ? l->len : n);
}

static bool is_error(const weir_output *l)
{
    return l->len >= strlen(WEIR_OUTPUT_ERROR) && may_be_error(l);
}

/* One write a line, so that lines of several ranks do not mix. */
static void pass_prefixed(weir_output *l)
{
    char text[sizeof l->prefix + WEIR_OUTPUT_LINE + 1];
    int n = snprintf(text, sizeof text, "%s%.*s\n", l->prefix, (int)l->len, l->line);

    write_all(l->to, text, (size_t)n);
}

static void keep_last(weir_output *l)
{
    snprintf(l->last[l->count++ % WEIR_OUTPUT_LAST], sizeof l->last[0], "%.*s",
             (int)(l->len < 255 ? l->len : 255), l->line);
}

/* A line is complete: ended by `end`, or (0) cut because it is long or the last. */
static void end_line(weir_output *l, char end)
{
    if (is_error(l)) {
        snprintf(l->error, sizeof l->error, "%.*s", (int)(l->len - strlen(WEIR_OUTPUT_ERROR)),
                 l->line + strlen(WEIR_OUTPUT_ERROR));
    } else {
        if (l->prefix[0]) {
            pass_prefixed(l);
        } else {
            write_all(l->to, l->line + l->shown, l->len - l->shown);
            if (end)
                write_all(l->to, &end, 1);
        }
        if (end != '\r' && l->len)
            keep_last(l);
    }
    l->len = l->shown = 0;
}

static void add(weir_output *l, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n' || (bytes[i] == '\r' && !l->prefix[0])) {
            end_line(l, bytes[i]);
            continue;
        }
        if (l->len == sizeof l->line)
            end_line(l, 0);
        l->line[l->len++] = bytes[i];
    }
    if (l->prefix[0] || may_be_error(l))
        return;
    write_all(l->to, l->line + l->shown, l->len - l->shown);
    l->shown = l->len;
}

static void shut(weir_output *l)
{
    if (l->len)
        end_line(l, 0);
    close(l->from);
    l->from = -1;
}

void weir_output_read(weir_output *l)
{
    char bytes[4096];

    while (l->from >= 0) {
        ssize_t n = read(l->from, bytes, sizeof bytes);
        if (n > 0)
            add(l, bytes, (size_t)n);
        else if (n < 0 && errno == EAGAIN)
            return;
        else if (n == 0 || errno != EINTR)
            shut(l);
    }
}

void weir_output_close(weir_output *l)
{
    weir_output_read(l);
    if (l->from >= 0)
        shut(l);
}
