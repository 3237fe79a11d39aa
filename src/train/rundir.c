/* rundir.c - see rundir.h. */
#include "train/rundir.h"
#include "coll/flight.h"
#include "core/file.h"
#include "train/checkpoint.h"
#include "train/report.h"
#include "train/run_model.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_config(const char *out)
{
    char path[4200];

    snprintf(path, sizeof path, "%s/config", out);
    return weir_path_exists(path);
}

static bool same_place(const char *a, const char *b)
{
    struct stat x, y;

    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* ---- whose it is ---- */

static weir_err refuse_run(const weir_settings *set)
{
    if (!weir_checkpoint_any(set->out) || (set->resume && same_place(set->out, set->resume)))
        return WEIR_OK;
    return weir_fail(
        WEIR_USAGE,
        "--out %s holds a run already: go on with --resume %s, or take another directory", set->out,
        set->out);
}

static weir_err lock(weir_rundir *d, weir_warned *warned)
{
    char path[4200], who[120], holder[WEIR_LOCK_HOLDER];
    struct stat st;
    bool sure;

    snprintf(path, sizeof path, "%s/lock", d->set->out);
    snprintf(who, sizeof who, "a run on host %.64s, pid %d,", d->host, (int)getpid());
    weir_err err = weir_lock_take(path, who, &d->lock, &sure, holder);
    if (err == WEIR_USAGE)
        return weir_fail(err, "%s is in use by %s: wait for it, end it, or take another directory",
                         d->set->out, holder);
    WEIR_TRY(err);
    if (!sure)
        weir_warned_add(warned,
                        "%s cannot be locked on its file system: no other run may use it meanwhile",
                        d->set->out);
    if (!stat(d->set->out, &st)) {
        d->device = st.st_dev;
        d->inode = st.st_ino;
    }
    return WEIR_OK;
}

weir_err weir_rundir_take(weir_rundir *d, weir_warned *warned)
{
    struct stat st;

    if (!d->set->out || stat(d->set->out, &st) || !S_ISDIR(st.st_mode))
        return WEIR_OK;
    WEIR_TRY(refuse_run(d->set));
    WEIR_TRY(lock(d, warned));
    return refuse_run(d->set); /* whoever had it until now may have saved since we looked */
}

void weir_rundir_leave(weir_rundir *d)
{
    weir_lock_release(d->lock);
    d->lock = NULL;
}

/* ---- what is in it ---- */

static weir_err write_text(const char *out, const char *name, const char *text)
{
    char path[4200];
    weir_file *f;
    weir_err err;

    snprintf(path, sizeof path, "%s/%s", out, name);
    WEIR_TRY(weir_file_create(path, &f));
    if ((err = weir_file_write(f, text, strlen(text))))
        return weir_file_drop(f), err;
    return weir_file_commit(f);
}

static weir_err write_config(const weir_settings *set)
{
    char *text = weir_settings_text(set);

    if (!text)
        return weir_fail_nomem(0);
    weir_err err = write_text(set->out, "config", text);
    free(text);
    return err;
}

/* Whoever made it since we looked has it. */
weir_err weir_rundir_fill(weir_rundir *d, weir_warned *warned)
{
    if (!d->set->out)
        return WEIR_OK;
    WEIR_TRY(weir_dir_make(d->set->out));
    if (!d->lock) {
        WEIR_TRY(lock(d, warned));
        WEIR_TRY(refuse_run(d->set));
    }
    /* before the config: where there is one, the copy is of the same run */
    WEIR_TRY(weir_run_model_write(d->model, d->set->out));
    return write_config(d->set);
}

/* Is what lies there of this run? Its config says what ours would. */
static bool is_ours(const weir_settings *set)
{
    char path[4200], *text = weir_settings_text(set);
    char *there = NULL;
    size_t n;
    bool same;

    snprintf(path, sizeof path, "%s/config", set->out);
    same = text && !weir_file_read(path, 1 << 20, &there, &n) && n == strlen(text) &&
           !memcmp(there, text, n);
    free(there);
    free(text);
    return same;
}

weir_err weir_rundir_take_over(weir_rundir *d, weir_warned *warned)
{
    char path[4200];

    if (!d->set->out)
        return WEIR_OK;
    if (!is_ours(d->set)) {
        weir_warned_add(warned,
                        "%s on this rank's machine is not the directory of the one that led: "
                        "log and checkpoints go on in it, without what there was",
                        d->set->out);
        return weir_rundir_fill(d, warned);
    }
    if (lock(d, warned) == WEIR_OK)
        return WEIR_OK;
    /* who holds it was given up by all others, and looks whether its lock stands before it saves */
    snprintf(path, sizeof path, "%s/lock", d->set->out);
    unlink(path);
    return lock(d, warned);
}

bool weir_rundir_is_there(const weir_rundir *d)
{
    struct stat st;

    return !stat(d->set->out, &st) && st.st_dev == d->device && st.st_ino == d->inode;
}

/* A lock that was only deleted is nobody's. */
bool weir_rundir_others(const weir_rundir *d)
{
    char path[4200];

    if (!d->set->out || !d->lock || weir_lock_stands(d->lock))
        return false;
    snprintf(path, sizeof path, "%s/lock", d->set->out);
    return weir_path_exists(path);
}

bool weir_rundir_held(const void *rundir)
{
    const weir_rundir *d = rundir;

    return d->set->out && weir_rundir_is_there(d) && !weir_rundir_others(d);
}

/* What was in it is gone; what this run knows goes into one of the same name. */
static weir_err make_anew(weir_rundir *d, weir_journal *journal)
{
    weir_warned warned = {0};
    char text[WEIR_WHY_MAX];
    weir_err err;

    weir_rundir_leave(d);
    if ((err = weir_rundir_fill(d, &warned)) || (err = weir_journal_renew(journal))) {
        snprintf(text, sizeof text, "%s", weir_why_text());
        return weir_fail(WEIR_DISK,
                         "%s was deleted under this run, and cannot be made anew: %.800s",
                         d->set->out, text);
    }
    snprintf(text, sizeof text,
             "%s was deleted under this run: it is made anew, without what was in it", d->set->out);
    WEIR_TRY(weir_report_warning(journal, text));
    for (int i = 0; i < warned.n; i++)
        WEIR_TRY(weir_report_warning(journal, warned.text[i]));
    return WEIR_OK;
}

/* A lock alone that somebody has removed is taken anew without a word. */
weir_err weir_rundir_keep(weir_rundir *d, weir_journal *journal)
{
    weir_warned none = {0};

    if (!d->set->out)
        return WEIR_OK;
    if (!weir_rundir_is_there(d))
        return make_anew(d, journal);
    if (d->lock && weir_lock_stands(d->lock))
        return WEIR_OK;
    weir_rundir_leave(d);
    return lock(d, &none);
}

/* ---- the log, and last words ---- */

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

    if (!out || !t->mesh.all.flight || !has_config(out))
        return;
    snprintf(path, sizeof path, "%s/flight-%d.txt", out, weir_net_rank(t->net));
    if (!(f = fopen(path, "we")))
        return;
    fprintf(f, "rank %d of %d, step %llu: the last collectives, oldest first\n",
            weir_net_rank(t->net), t->mesh.all.size, (unsigned long long)t->step + 1);
    weir_flight_write(t->mesh.all.flight, weir_now(t->rt), f);
    fclose(f);
}
