/* settings.h - the options of a run: one table for flags, config files, help, the embedding API and
 * the run's own `config`. */
#ifndef WEIR_TRAIN_SETTINGS_H
#define WEIR_TRAIN_SETTINGS_H
#include "core/plug.h"
#include "net/net.h"

typedef struct weir_settings {
    const char *model, *data, *optim, *lr, *exchange, *codec, *coll, *net;
    int64_t epochs, steps, batch, accumulate, workers, threads, seed, keep, check_every;
    double clip, timeout, stall;
    const char *out, *log, *resume, *profile;
    const char *save_every, *eval_every;
    const char *rendezvous, *key;
    int64_t rank, size; /* as given: see weir_settings_given */
    int64_t leader;
    bool quiet, exact, insecure, elastic;
    int64_t min_workers, max_workers, restarts;
    const char *join;
    /* the run's own copy of the model, for one that goes on; NULL: the file that `model` names */
    const char *model_copy;
    /* of a run that goes on elsewhere: the data as it kept them, where they are no more, and `data`
     * is where they were found; NULL: they are where they were */
    const char *data_kept;
    const char *from;  /* where relative paths begin, absolute; NULL: they are kept as given */
    weir_arena *arena; /* of the texts above */
    uint64_t given;    /* bit i: option i of the table was set by the user */
} weir_settings;

extern const weir_opt weir_settings_options[];

/* Defaults. The arena outlives the settings. */
weir_err weir_settings_init(weir_settings *, weir_arena *);
/* One option by name; '_' may stand for '-'. */
weir_err weir_settings_set(weir_settings *, const char *key, const char *value);
/* `key value` a line; a # at its beginning or behind a space begins a comment, unless the value
 * stands in quotes. Keys that were given before are left alone, so that flags win.
 * Errors name file and line. */
weir_err weir_settings_read(weir_settings *, const char *path);
/* The settings that weir_settings_text wrote. */
weir_err weir_settings_parse(const char *text, weir_arena *, weir_settings *);
/* What the text says where the user said nothing: a run's settings, for one that joins it. */
weir_err weir_settings_take(weir_settings *, const char *text);
/* With --resume: what DIR/config says, where the user said nothing, and DIR's copy of the model,
 * where the user named none; --out becomes DIR where none was given. */
weir_err weir_settings_resume(weir_settings *);
/* All that differs from the defaults, in the form that weir_settings_read takes; malloc'ed. Paths
 * of model and data hold from everywhere. */
char *weir_settings_text(const weir_settings *);
/* Model and data as a run keeps them: with absolute paths; malloc'ed. NULL: no memory. */
char *weir_settings_model(const weir_settings *);
char *weir_settings_data(const weir_settings *);
bool weir_settings_given(const weir_settings *, const char *key);
/* What must hold before anything is opened: how long, batch >= 1 ... */
weir_err weir_settings_check(const weir_settings *);
/* Which rank this process is, by its options or a launcher's variables, and how it meets the
 * others. Lives as long as the settings. */
weir_err weir_settings_rank_info(const weir_settings *, weir_rank_info *);
/* In a simulated world this process is all of the ranks: as many as --workers says, if it does; and
 * whether it is one. */
weir_err weir_settings_simulated(const weir_settings *, weir_rank_info *, bool *simulated);
#endif
