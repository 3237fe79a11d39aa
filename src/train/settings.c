/* settings.c - the table of options and the two ways to fill it. */
#include "train/settings.h"
#include "core/file.h"
#include "net/rank_info.h"
#include "optim/rate.h"
#include "nn/zoo.h"
#include "train/checkpoint.h"
#include "train/refuse.h"
#include "train/run_data.h"
#include "train/run_model.h"
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(weir_settings, field)
const weir_opt weir_settings_options[] = {
    {"model", WEIR_OPT_TEXT, AT(model), NULL,
     "a model of the zoo or a FILE.net, with sizes: mlp:hidden=512"},
    {"data", WEIR_OPT_TEXT, AT(data), NULL,
     "a data set by name, or a spec such as idx:DIR (see weir list data)"},
    {"epochs", WEIR_OPT_INT, AT(epochs), "0", "how long, in passes over the training part",
     .min = 0, .max = 1e9},
    {"steps", WEIR_OPT_INT, AT(steps), "0", "how long, in steps", .min = 0, .max = 1e15},
    {"batch", WEIR_OPT_INT, AT(batch), "64", "samples a step, over all workers together", .min = 1,
     .max = 1 << 24},
    {"accumulate", WEIR_OPT_INT, AT(accumulate), "1", "micro-batches a step", .min = 1,
     .max = 1 << 20},
    {"optim", WEIR_OPT_TEXT, AT(optim), "sgd",
     "the optimiser, such as sgd:momentum=0.9,decay=1e-4"},
    {"lr", WEIR_OPT_TEXT, AT(lr), "0.01",
     "the rate: a number, or cosine:rate=0.05,warmup=200 (see weir list rate)"},
    {"clip", WEIR_OPT_REAL, AT(clip), "0", "bound on the norm of the step's gradient (0: off)",
     .min = 0, .max = 1e300},
    {"exact", WEIR_OPT_BOOL, AT(exact), "no",
     "sums are taken in double, sample by sample: any number of workers gives the same numbers; "
     "slower"},
    {"workers", WEIR_OPT_INT, AT(workers), "1", "processes on this machine", .min = 1, .max = 1024},
    {"threads", WEIR_OPT_INT, AT(threads), "0",
     "compute threads of each worker (0: cores / workers)", .min = 0, .max = 4096},
    {"rank", WEIR_OPT_INT, AT(rank), NULL,
     "this process is that rank of a run over several machines, started by hand", .min = 0,
     .max = 1 << 20},
    {"size", WEIR_OPT_INT, AT(size), NULL, "ranks of that run", .min = 1, .max = 1 << 20},
    {"rendezvous", WEIR_OPT_TEXT, AT(rendezvous), NULL,
     "HOST:PORT where they meet: rank 0 listens there; with --workers: where others may join"},
    {"leader", WEIR_OPT_INT, AT(leader), "0",
     "the rank that keeps log, config and checkpoints, where its disk is", .min = 0,
     .max = 1 << 20},
    {"key", WEIR_OPT_TEXT, AT(key), NULL,
     "file with the cluster's key (see weir help keygen; also WEIR_KEY)"},
    {"insecure", WEIR_OPT_BOOL, AT(insecure), "no", "listen beyond this machine without a key"},
    {"exchange", WEIR_OPT_TEXT, AT(exchange), "allreduce", "how workers come to agree"},
    {"codec", WEIR_OPT_TEXT, AT(codec), "none", "how gradients are written on the wire"},
    {"coll", WEIR_OPT_TEXT, AT(coll), "auto", "the collective"},
    {"net", WEIR_OPT_TEXT, AT(net), "auto", "the world the workers live in"},
    {"profile", WEIR_OPT_TEXT, AT(profile), NULL,
     "FILE of what a step costs: written by a real bench train, spent by a simulated run"},
    {"seed", WEIR_OPT_INT, AT(seed), "1", "everything random derives from it", .min = 0,
     .max = 9e18},
    {"out", WEIR_OPT_TEXT, AT(out), NULL,
     "run directory: log, config, a copy of the model, checkpoints (without it nothing is kept)"},
    {"log", WEIR_OPT_TEXT, AT(log), NULL, "where the log goes (OUT/log.jsonl)"},
    {"resume", WEIR_OPT_TEXT, AT(resume), NULL,
     "go on from the newest whole checkpoint of this run directory"},
    {"save-every", WEIR_OPT_TEXT, AT(save_every), "1e",
     "steps between checkpoints, or 2e for epochs"},
    {"eval-every", WEIR_OPT_TEXT, AT(eval_every), "1e",
     "steps between evaluations, or 2e for epochs"},
    {"keep", WEIR_OPT_INT, AT(keep), "3", "checkpoints kept", .min = 1, .max = 1e6},
    {"check-every", WEIR_OPT_INT, AT(check_every), "100",
     "steps between checks that all workers hold the same parameters (0: none)", .min = 0,
     .max = 1e15},
    {"timeout", WEIR_OPT_REAL, AT(timeout), "30", "seconds a peer may show no sign of life",
     .min = 0.5, .max = 1e6},
    {"stall", WEIR_OPT_REAL, AT(stall), "600", "seconds a live but busy peer is waited for",
     .min = 0.5, .max = 1e7},
    {"elastic", WEIR_OPT_BOOL, AT(elastic), "yes",
     "go on when workers are lost, where the world and the exchange can"},
    {"min-workers", WEIR_OPT_INT, AT(min_workers), "1",
     "with fewer left the run saves and ends (exit 10)", .min = 1, .max = 1 << 20},
    {"max-workers", WEIR_OPT_INT, AT(max_workers), "0",
     "as many may there be when others join (0: as many as at the start)", .min = 0,
     .max = 1 << 20},
    {"join", WEIR_OPT_TEXT, AT(join), NULL,
     "HOST:PORT: join the run whose --rendezvous that is, or that has a member there (or several: "
     "A:PORT,B:PORT)"},
    {"restarts", WEIR_OPT_INT, AT(restarts), "0",
     "workers of this machine that are started anew for dead ones", .min = 0, .max = 1e6},
    {"quiet", WEIR_OPT_BOOL, AT(quiet), "no", "no progress"},
    {0},
};
#undef AT

/* where things go is said anew for each start: these are never written to a run's config, nor taken
 * from one */
static const char *const not_kept[] = {"out",     "log",    "resume",     "quiet", "rank",
                                       "size",    "leader", "rendezvous", "key",   "insecure",
                                       "profile", "join",   "restarts",   NULL};

static bool listed(const char *const *list, const char *key)
{
    while (list && *list && strcmp(*list, key))
        list++;
    return list && *list;
}

static int option_index(const char *key)
{
    for (int i = 0; weir_settings_options[i].name; i++)
        if (!strcmp(weir_settings_options[i].name, key))
            return i;
    return -1;
}

static void plain_key(char *to, size_t room, const char *key)
{
    snprintf(to, room, "%s", key);
    for (char *c = to; *c; c++)
        if (*c == '_')
            *c = '-';
}

weir_err weir_settings_init(weir_settings *s, weir_arena *arena)
{
    *s = (weir_settings){.arena = arena};
    return weir_opt_defaults(weir_settings_options, "weir train", arena, s);
}

weir_err weir_settings_set(weir_settings *s, const char *key, const char *value)
{
    char plain[64];

    plain_key(plain, sizeof plain, key);
    WEIR_TRY(weir_opt_set(weir_settings_options, "weir train", plain, value, s->arena, s));
    s->given |= 1ull << option_index(plain);
    return WEIR_OK;
}

bool weir_settings_given(const weir_settings *s, const char *key)
{
    return s->given >> option_index(key) & 1;
}

/* "a # b", with "" for a quote, in place; what is behind it may only be a comment. */
static weir_err cut_quoted(char *value)
{
    char *to = value, *from = value + 1;

    while (*from && (*from != '"' || from[1] == '"')) {
        from += *from == '"';
        *to++ = *from++;
    }
    if (!*from)
        return weir_fail(WEIR_USAGE, "a quote that is not closed");
    from++;
    from += strspn(from, " \t");
    if (*from && *from != '#')
        return weir_fail(WEIR_USAGE, "'%.100s' stands behind the closing quote", from);
    *to = 0;
    return WEIR_OK;
}

/* The value alone, in place: without the comment and the spaces behind it. A # within a word is
 * part of it. */
static weir_err cut_value(char *value)
{
    char *end = value;

    if (*value == '"')
        return cut_quoted(value);
    while (*end && (*end != '#' || (end > value && !strchr(" \t", end[-1]))))
        end++;
    while (end > value && strchr(" \t", end[-1]))
        end--;
    *end = 0;
    return WEIR_OK;
}

static bool is_plain(const char *value)
{
    size_t n = strlen(value);

    return !strchr("\"# \t", value[0]) && !strchr(" \t", value[n - 1]) && !strstr(value, " #") &&
           !strstr(value, "\t#");
}

/* As read_line takes it; the value is not empty. */
static void write_line(FILE *f, const char *key, const char *value)
{
    const char *quote = is_plain(value) ? "" : "\"";

    fprintf(f, "%s %s", key, quote);
    for (const char *c = value; *c; c++) {
        if (*quote && *c == '"')
            fputc('"', f);
        fputc(*c, f);
    }
    fprintf(f, "%s\n", quote);
}

/* One line of a config file, cut in place. */
static weir_err read_line(weir_settings *s, char *line, const char *path, int number,
                          const char *const *skip)
{
    char *key = line + strspn(line, " \t"), *value, plain[64];

    line[strcspn(line, "\r")] = 0;
    if (!*key || *key == '#')
        return WEIR_OK;
    value = key + strcspn(key, " \t=");
    if (*value)
        *value++ = 0;
    value += strspn(value, " \t=");
    plain_key(plain, sizeof plain, key);
    if (listed(skip, plain) || (option_index(plain) >= 0 && weir_settings_given(s, plain)))
        return WEIR_OK;
    if ((!strcmp(plain, "steps") && weir_settings_given(s, "epochs")) ||
        (!strcmp(plain, "epochs") && weir_settings_given(s, "steps")))
        return WEIR_OK; /* how long was said on the command line, the other way */
    weir_err err = cut_value(value);
    if (!err)
        err = weir_settings_set(s, key, value);
    return err ? weir_fail_in(err, "%s:%d", path, number) : WEIR_OK;
}

/* A config's text, cut in place; `path` is for messages. */
static weir_err read_text(weir_settings *s, char *text, const char *path, const char *const *skip)
{
    uint64_t before = s->given;
    char *line = text;
    weir_err err = WEIR_OK;

    for (int number = 1; line && !err; number++) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        uint64_t given = s->given;
        s->given = before; /* a later line of the same file wins over an earlier one */
        err = read_line(s, line, path, number, skip);
        s->given |= given;
        line = next;
    }
    return err;
}

/* option: the one by which the user asked for it. */
static weir_err read_file(weir_settings *s, const char *option, const char *path,
                          const char *const *skip)
{
    char *text;
    size_t n;
    weir_err err;

    if (weir_file_read(path, 1 << 20, &text, &n))
        return weir_fail(WEIR_USAGE, "%s: %s", option, weir_why_text());
    err = strlen(text) != n ? weir_fail(WEIR_USAGE, "%s: a zero byte in a config file", path)
                            : read_text(s, text, path, skip);
    free(text);
    return err;
}

weir_err weir_settings_parse(const char *text, weir_arena *arena, weir_settings *s)
{
    char *copy = weir_copy_text(arena, text);

    if (!copy)
        return weir_fail_nomem(strlen(text));
    WEIR_TRY(weir_settings_init(s, arena));
    return read_text(s, copy, "the settings of a checkpoint", NULL);
}

weir_err weir_settings_take(weir_settings *s, const char *text)
{
    char *copy = weir_copy_text(s->arena, text);

    return copy ? read_text(s, copy, "the settings of the run", not_kept)
                : weir_fail_nomem(strlen(text));
}

weir_err weir_settings_read(weir_settings *s, const char *path)
{
    return read_file(s, "--config", path, NULL);
}

static weir_err no_run(const char *dir)
{
    return weir_path_exists(dir)
               ? weir_fail(
                     WEIR_USAGE,
                     "--resume %s: there is no run in it: its config, or a checkpoint step-N, "
                     "was expected",
                     dir)
               : weir_fail(WEIR_USAGE, "--resume %s: there is no such directory", dir);
}

weir_err weir_settings_resume(weir_settings *s)
{
    char path[4200], dir[4100];

    if (!s->resume)
        return WEIR_OK;
    snprintf(path, sizeof path, "%s/model.safetensors", s->resume);
    bool one = weir_path_exists(path);
    if (one && !s->out)
        return weir_fail(WEIR_USAGE,
                         "--resume %s is one checkpoint: say with --out where the run goes on, or "
                         "resume its run, %s/..",
                         s->resume, s->resume);
    if (!s->out)
        s->out = s->resume;
    snprintf(dir, sizeof dir, one ? "%s/.." : "%s", s->resume);
    snprintf(path, sizeof path, "%s/config", dir);
    if (!weir_path_exists(path))
        return one || weir_checkpoint_any(s->resume) ? WEIR_OK : no_run(s->resume);
    bool said = weir_settings_given(s, "workers"), data = weir_settings_given(s, "data");
    if (!weir_settings_given(s, "model"))
        WEIR_TRY(weir_run_model_find(dir, s->arena, &s->model_copy));
    WEIR_TRY(read_file(s, "--resume", path, not_kept));
    if (!data)
        WEIR_TRY(weir_run_data_find(s, dir));
    /* as many as before, unless whoever starts the ranks, or the world, says how many: that is no
     * contradiction */
    if (!said)
        s->given &= ~(1ull << option_index("workers"));
    return WEIR_OK;
}

char *weir_settings_model(const weir_settings *s)
{
    return s->from ? weir_zoo_spec_from(s->model, s->from) : strdup(s->model);
}

char *weir_settings_data(const weir_settings *s)
{
    return s->from ? weir_data_spec_from(s->data, s->from) : strdup(s->data);
}

/* False: no memory. */
static bool write_spec(FILE *f, const char *key, char *spec)
{
    if (spec)
        write_line(f, key, spec);
    free(spec);
    return spec;
}

/* One option, if it is to be kept and is not as it is by default. */
static bool write_option(FILE *f, const weir_settings *s, const weir_opt *o)
{
    char value[4200];

    weir_opt_show(o, s, value, sizeof value);
    if (!value[0] || (o->standard && !strcmp(value, o->standard)) || listed(not_kept, o->name))
        return true;
    if (!strcmp(o->name, "model"))
        return write_spec(f, o->name, weir_settings_model(s));
    if (!strcmp(o->name, "data"))
        return write_spec(f, o->name, weir_settings_data(s));
    write_line(f, o->name, value);
    return true;
}

char *weir_settings_text(const weir_settings *s)
{
    char *text = NULL;
    size_t n = 0;
    bool whole = true;
    FILE *f = open_memstream(&text, &n);

    if (!f)
        return NULL;
    for (const weir_opt *o = weir_settings_options; o->name; o++)
        whole = write_option(f, s, o) && whole;
    if (fclose(f) || !whole) {
        free(text);
        return NULL;
    }
    return text;
}

static weir_err check_coll(const char *spec, weir_arena *arena)
{
    const weir_plug *plug;
    void *self;

    WEIR_TRY(weir_coll_find(spec, &plug));
    return weir_plug_make(plug, "collective", spec, arena, &self);
}

/* Everything that needs no file and no peer, so that a slip is told once, before any worker
 * starts. */
static weir_err check_specs(const weir_settings *s, weir_arena *arena)
{
    weir_rate_use rate;
    weir_facts facts;
    uint64_t steps;

    if (strcmp(s->coll, "auto"))
        WEIR_TRY(check_coll(s->coll, arena));
    WEIR_TRY(weir_facts_read(s, arena, &facts));
    facts.trains = true;
    WEIR_TRY(weir_refuse(&facts));
    WEIR_TRY(weir_steps_read("--save-every", s->save_every, 1, &steps));
    WEIR_TRY(weir_steps_read("--eval-every", s->eval_every, 1, &steps));
    return weir_rate_open(s->lr, 1, 1, arena, &rate);
}

/* The rest it is told at the door. */
static weir_err check_joiner(const weir_settings *s)
{
    static const char *const own[] = {"join",    "key",     "insecure", "net",   "data", "log",
                                      "threads", "timeout", "stall",    "quiet", NULL};

    for (int i = 0; weir_settings_options[i].name; i++) {
        const char *name = weir_settings_options[i].name;
        if (weir_settings_given(s, name) && !listed(own, name))
            return weir_fail(WEIR_USAGE,
                             "--join: a run that is joined has its own settings and directory: "
                             "leave out --%s",
                             name);
    }
    return WEIR_OK;
}

weir_err weir_settings_check(const weir_settings *s)
{
    weir_arena *arena;
    weir_err err;

    if (s->join)
        return check_joiner(s);
    if (!s->model)
        return weir_fail(WEIR_USAGE, "which model? --model NAME or FILE.net");
    if (!s->data)
        return weir_fail(WEIR_USAGE, "which data? --data fashion-mnist, idx:DIR, ...");
    if (!s->epochs && !s->steps)
        return weir_fail(WEIR_USAGE, "how long? --epochs N or --steps N");
    if (s->epochs && s->steps)
        return weir_fail(WEIR_USAGE, "--epochs and --steps both say how long: give one");
    if (!(arena = weir_arena_new()))
        return weir_fail_nomem(0);
    err = check_specs(s, arena);
    weir_arena_free(arena);
    return err;
}

weir_err weir_settings_rank_info(const weir_settings *s, weir_rank_info *out)
{
    int rank = weir_settings_given(s, "rank") ? (int)s->rank : -1;
    /* started here, all of them, and others may come from elsewhere */
    bool open = s->rendezvous && s->workers > 1 && rank == -1 && !s->size;
    weir_rank_info p;

    if (s->join)
        WEIR_TRY(weir_rank_info_join(s->join, &p));
    else
        WEIR_TRY(weir_rank_info_find(rank, (int)s->size, open ? NULL : s->rendezvous, &p));
    if (open)
        WEIR_TRY(weir_rank_info_open(s->rendezvous, &p));
    p.guests |= s->elastic && p.rendezvous[0];
    p.timeout = s->timeout;
    p.stall = s->stall;
    p.insecure = s->insecure;
    p.key = s->key ? s->key : getenv("WEIR_KEY");
    if (p.insecure && p.key)
        return weir_fail(WEIR_USAGE, "--insecure, and a key in %s by %s: which of the two?", p.key,
                         s->key ? "--key" : "WEIR_KEY");
    *out = p;
    return WEIR_OK;
}

weir_err weir_settings_simulated(const weir_settings *s, weir_rank_info *rank_info, bool *simulated)
{
    weir_net_facts facts;
    bool given = weir_settings_given(s, "workers");

    WEIR_TRY(weir_net_check(s->net, &facts));
    *simulated = facts.simulated;
    if (!facts.simulated)
        return WEIR_OK;
    if (facts.ranks && given && s->workers != facts.ranks)
        return weir_fail(WEIR_MISFIT,
                         "--workers %lld, but --net %s has %d nodes: leave one of them out",
                         (long long)s->workers, s->net, facts.ranks);
    if (rank_info->size == 1 && (given || !facts.ranks))
        rank_info->size = (int)s->workers;
    return WEIR_OK;
}
