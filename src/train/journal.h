/* journal.h - what a run tells: the log, a JSON object a line, and progress for people. The leader
 * has one; the others' is NULL, and every verb takes NULL. */
#ifndef WEIR_TRAIN_JOURNAL_H
#define WEIR_TRAIN_JOURNAL_H
#include "core/json.h"
#include "core/task.h"
#include <stdio.h>

typedef struct weir_journal weir_journal;

typedef struct weir_journal_setup {
    const char *path; /* NULL: no file */
    double began;     /* when the run began */
    FILE *people;     /* where progress goes; NULL: nowhere */
    bool live;        /* people is a terminal: one line, rewritten */
    void (*event)(void *, const char *json);
    void *arg;
    weir_rt *rt;
} weir_journal_setup;

weir_err weir_journal_open(const weir_journal_setup *, weir_journal **);
/* The file at its path may be another by now: opens it again. */
weir_err weir_journal_renew(weir_journal *);
const char *weir_journal_path(const weir_journal *); /* NULL: it has no file */
/* It goes on with what others began: its first line is not the run's first. */
void weir_journal_go_on(weir_journal *);
/* Somebody will see what is written. */
bool weir_journal_logs(const weir_journal *);
/* An event with its time; give it to weir_journal_write, which frees it. NULL journal: NULL.
 *
 * Where the first line cannot be written that is WEIR_DISK. Later a full disk ends no run: lines
 * that cannot be written are lost whole, which is warned of, and the log says how many are missing
 * as soon as it can. If the last ones are, closing is WEIR_DISK. */
weir_json *weir_journal_event(weir_journal *, const char *event);
weir_err weir_journal_write(weir_journal *, weir_json *);
/* A line that stays, and one that is rewritten at most some times a second (only on a terminal). */
void weir_journal_say(weir_journal *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool weir_journal_live_due(weir_journal *);
void weir_journal_live(weir_journal *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
weir_err weir_journal_close(weir_journal *);
#endif
