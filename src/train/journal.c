/* journal.c - log lines and progress. */
#include "train/journal.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct weir_journal {
    weir_journal_setup set;
    FILE *file;
    char *path;
    double shown;
    bool line_open; /* the terminal shows a line that is not finished */
};

/* Appends; what was cut off in the middle of a line ends there. */
static weir_err open_file(const char *path, FILE **file)
{
    FILE *f = fopen(path, "a+");
    int last = '\n';

    if (!f)
        return weir_fail(WEIR_DISK, "%s: cannot be written: %s", path, strerror(errno));
    if (!fseek(f, -1, SEEK_END))
        last = fgetc(f);
    fseek(f, 0, SEEK_END);
    if (last != '\n')
        fputc('\n', f);
    *file = f;
    return WEIR_OK;
}

weir_err weir_journal_open(const weir_journal_setup *set, weir_journal **journal)
{
    weir_journal *j = calloc(1, sizeof *j);

    if (!j)
        return weir_fail_nomem(sizeof *j);
    j->set = *set;
    if (set->path && !(j->path = strdup(set->path)))
        return free(j), weir_fail_nomem(strlen(set->path));
    weir_err err = set->path ? open_file(set->path, &j->file) : WEIR_OK;
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
    FILE *file;

    if (!j || !j->file)
        return WEIR_OK;
    WEIR_TRY(open_file(j->path, &file));
    fclose(j->file);
    j->file = file;
    return WEIR_OK;
}

bool weir_journal_logs(const weir_journal *j) { return j && (j->file || j->set.event); }

weir_json *weir_journal_event(weir_journal *j, const char *event)
{
    weir_json *e;

    if (!weir_journal_logs(j) || !(e = weir_json_object()))
        return NULL;
    weir_json_put_text(e, "event", event);
    weir_json_put_real(e, "t", weir_now(j->set.rt) - j->set.began);
    return e;
}

weir_err weir_journal_write(weir_journal *j, weir_json *event)
{
    char *text;
    bool bad = false;

    if (!j || !event)
        return WEIR_OK;
    text = weir_json_text(event);
    weir_json_free(event);
    if (!text)
        return weir_fail_nomem(1000);
    if (j->set.event)
        j->set.event(j->set.arg, text);
    if (j->file)
        bad = fputs(text, j->file) < 0 || fputc('\n', j->file) < 0 || fflush(j->file);
    free(text);
    return bad ? weir_fail(WEIR_DISK, "%s: cannot be written: %s", j->set.path, strerror(errno))
               : WEIR_OK;
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
    bool bad;

    if (!j)
        return WEIR_OK;
    if (j->line_open)
        fputs("\r\033[K", j->set.people);
    bad = j->file && fclose(j->file);
    free(j->path);
    free(j);
    return bad ? weir_fail(WEIR_DISK, "the log could not be written whole: %s", strerror(errno))
               : WEIR_OK;
}
