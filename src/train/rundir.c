/* rundir.c - see rundir.h. */
#include "train/rundir.h"
#include "coll/flight.h"
#include "core/file.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool holds_run(const char *out)
{
    char path[4200];

    snprintf(path, sizeof path, "%s/config", out);
    if (weir_path_exists(path))
        return true;
    snprintf(path, sizeof path, "%s/latest", out);
    return weir_path_exists(path);
}

static bool same_place(const char *a, const char *b)
{
    struct stat x, y;

    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

weir_err weir_rundir_check(const weir_settings *set)
{
    if (set->out && holds_run(set->out) && !(set->resume && same_place(set->out, set->resume)))
        return weir_fail(
            WEIR_USAGE,
            "--out %s holds a run already: go on with --resume %s, or take another directory",
            set->out, set->out);
    return WEIR_OK;
}

weir_err weir_rundir_write_config(const weir_settings *set)
{
    char path[4200];
    weir_file *f;

    if (!set->out)
        return WEIR_OK;
    WEIR_TRY(weir_dir_make(set->out));
    snprintf(path, sizeof path, "%s/config", set->out);
    char *text = weir_settings_text(set);
    if (!text)
        return weir_fail_nomem(0);
    weir_err err = weir_file_create(path, &f);
    if (!err && (err = weir_file_write(f, text, strlen(text))))
        weir_file_drop(f);
    else if (!err)
        err = weir_file_commit(f);
    free(text);
    return err;
}

weir_err weir_rundir_open_journal(const weir_settings *set, const weir_hooks *hooks, double began,
                                  weir_rt *rt, weir_journal **journal)
{
    char path[4200] = "";

    if (set->log)
        snprintf(path, sizeof path, "%s", set->log);
    else if (set->out)
        snprintf(path, sizeof path, "%s/log.jsonl", set->out);
    weir_journal_setup setup = {.path = path[0] ? path : NULL,
                                .began = began,
                                .people = hooks->people,
                                .live = hooks->live,
                                .event = hooks->event,
                                .arg = hooks->arg,
                                .rt = rt};
    return weir_journal_open(&setup, journal);
}

void weir_rundir_write_flight(const weir_trainer *t)
{
    const char *out = t->set->out;
    char path[4200];
    FILE *f;

    if (!out || !t->mesh.all.flight || !holds_run(out))
        return;
    snprintf(path, sizeof path, "%s/flight-%d.txt", out, t->mesh.all.me);
    if (!(f = fopen(path, "we")))
        return;
    fprintf(f, "rank %d of %d, step %llu: the last collectives, oldest first\n", t->mesh.all.me,
            t->mesh.all.size, (unsigned long long)t->step + 1);
    weir_flight_write(t->mesh.all.flight, weir_now(t->rt), f);
    fclose(f);
}
