/* journal.c - log lines and progress. */
#include "train/journal.h"
#include "core/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a file of whole lines ---- */

typedef struct lines {
    int fd;    /* -1: there is none */
    bool torn; /* its last line has no end */
} lines;

static weir_err cannot_write(const char *path, int why)
{
    return weir_fail(WEIR_DISK, "%s: cannot be written: %s", path, strerror(why));
}

/* Appends; what was cut off in the middle of a line ends there. */
static weir_err open_lines(const char *path, lines *l)
{
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    char last = '\n';

    if (fd < 0)
        return cannot_write(path, errno);
    l->torn = lseek(fd, -1, SEEK_END) >= 0 && read(fd, &last, 1) == 1 && last != '\n';
    l->fd = fd;
    return WEIR_OK;
}

/* 0, or errno; *done: bytes that were written all the same. */
static int write_all(int fd, const char *bytes, size_t n, size_t *done)
{
    for (*done = 0; *done < n;) {
        ssize_t k = write(fd, bytes + *done, n - *done);
        if (k < 0 && errno != EINTR)
            return errno;
        *done += k > 0 ? (size_t)k : 0;
    }
    return 0;
}

/* 0, or errno: nothing of it is in the file then. */
static int write_line(lines *l, const char *text)
{
    off_t before = lseek(l->fd, 0, SEEK_END);
    size_t done;
    char *line;
    int n = asprintf(&line, "%s%s\n", l->torn ? "\n" : "", text), why;

    if (n < 0)
        return ENOMEM;
    why = write_all(l->fd, line, (size_t)n, &done);
    free(line);
    if (!why)
        l->torn = false;
    else if (done && (before < 0 || ftruncate(l->fd, before)))
        l->torn = true;
    return why;
}

/* ---- the journal ---- */

struct weir_journal {
    weir_journal_setup set;
    lines lines;
    char *path;
    bool begun;    /* a line has been written */
    uint64_t lost; /* lines since then that could not be */
    int why;       /* errno of the last of them */
    double shown;
    bool line_open; /* the terminal shows a line that is not finished */
};

weir_err weir_journal_open(const weir_journal_setup *set, weir_journal **journal)
{
    weir_journal *j = calloc(1, sizeof *j);

    if (!j)
        return weir_fail_nomem(sizeof *j);
    j->set = *set;
    if (set->path && !(j->path = strdup(set->path)))
        return free(j), weir_fail_nomem(strlen(set->path));
    j->lines.fd = -1;
    weir_err err = set->path ? open_lines(set->path, &j->lines) : WEIR_OK;
    if (err) {
        free(j->path);
        free(j);
        return err;
    }
    j->set.path = j->path;
    *journal = j;
    return WEIR_OK;
}

weir_err weir_journal_renew(weir_journal *j)
{
    lines anew;

    if (!j || j->lines.fd < 0)
        return WEIR_OK;
    WEIR_TRY(open_lines(j->path, &anew));
    close(j->lines.fd);
    j->lines = anew;
    return WEIR_OK;
}

void weir_journal_go_on(weir_journal *j) { j->begun = true; }

const char *weir_journal_path(const weir_journal *j) { return j ? j->path : NULL; }

bool weir_journal_logs(const weir_journal *j) { return j && (j->lines.fd >= 0 || j->set.event); }

weir_json *weir_journal_event(weir_journal *j, const char *event)
{
    weir_json *e;

    if (!weir_journal_logs(j) || !(e = weir_json_object()))
        return NULL;
    weir_json_put_text(e, "event", event);
    weir_json_put_real(e, "t", weir_now(j->set.rt) - j->set.began);
    return e;
}

/* What stands in the place of lines that are missing; NULL: out of memory. */
static char *gap_text(weir_journal *j)
{
    weir_json *e = weir_journal_event(j, "warning");
    char what[200], *text;

    if (!e)
        return NULL;
    snprintf(what, sizeof what, "%llu lines are missing here, which could not be written: %s",
             (unsigned long long)j->lost, strerror(j->why));
    weir_json_put_text(e, "what", what);
    text = weir_json_text(e);
    weir_json_free(e);
    return text;
}

/* A line, and one before it if some are missing; 0, or errno. */
static int write_on(weir_journal *j, const char *text)
{
    char *gap = NULL, *both = NULL;
    int why = ENOMEM;

    if (!j->lost)
        return write_line(&j->lines, text);
    if ((gap = gap_text(j)) && asprintf(&both, "%s\n%s", gap, text) >= 0) {
        why = write_line(&j->lines, both);
        free(both);
    }
    free(gap);
    return why;
}

/* What cannot be written is lost, and warned of once; a file that takes nothing from the first line
 * on is an error. */
static weir_err write_or_lose(weir_journal *j, const char *text)
{
    int why = write_on(j, text);

    if (!why) {
        j->begun = true;
        j->lost = 0;
        return WEIR_OK;
    }
    if (!j->begun)
        return cannot_write(j->path, why);
    if (!j->lost++)
        weir_log(WEIR_LOG_WARN, "train", "%s: cannot be written: %s; lines of it will be missing",
                 j->path, strerror(why));
    j->why = why;
    return WEIR_OK;
}

weir_err weir_journal_write(weir_journal *j, weir_json *event)
{
    char *text;
    weir_err err;

    if (!j || !event)
        return WEIR_OK;
    text = weir_json_text(event);
    weir_json_free(event);
    if (!text)
        return weir_fail_nomem(1000);
    if (j->set.event)
        j->set.event(j->set.arg, text);
    err = j->lines.fd >= 0 ? write_or_lose(j, text) : WEIR_OK;
    free(text);
    return err;
}

void weir_journal_say(weir_journal *j, const char *format, ...)
{
    va_list list;

    if (!j || !j->set.people)
        return;
    if (j->line_open)
        fputs("\r\033[K", j->set.people);
    j->line_open = false;
    va_start(list, format);
    vfprintf(j->set.people, format, list);
    va_end(list);
    fputc('\n', j->set.people);
    fflush(j->set.people);
}

bool weir_journal_live_due(weir_journal *j)
{
    return j && j->set.people && j->set.live && weir_now(j->set.rt) - j->shown > 0.2;
}

void weir_journal_live(weir_journal *j, const char *format, ...)
{
    va_list list;

    if (!weir_journal_live_due(j))
        return;
    fputs("\r\033[K", j->set.people);
    va_start(list, format);
    vfprintf(j->set.people, format, list);
    va_end(list);
    fflush(j->set.people);
    j->line_open = true;
    j->shown = weir_now(j->set.rt);
}

weir_err weir_journal_close(weir_journal *j)
{
    weir_err err = WEIR_OK;

    if (!j)
        return WEIR_OK;
    if (j->line_open)
        fputs("\r\033[K", j->set.people);
    if (j->lines.fd >= 0 && close(j->lines.fd) && !j->lost)
        err = cannot_write(j->path, errno);
    if (j->lost)
        err = weir_fail(WEIR_DISK, "%s: its last %llu lines could not be written: %s", j->path,
                        (unsigned long long)j->lost, strerror(j->why));
    free(j->path);
    free(j);
    return err;
}
