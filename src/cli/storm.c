/* storm.c - weir storm: seeds of faults in the simulated world, each held to the laws of
 * train/storm.h. They are tried in other processes: one that crashes or never ends is a violation
 * like any other. A violation is made smaller: faults are left out one by one for as long as there
 * still is one. */
#include "cli/cli.h"
#include "core/file.h"
#include "exchange/exchange.h"
#include "net/launch_trials.h"
#include "train/storm.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* REAL_SECONDS: a storm takes some hundredths */
enum {
    SHRUNK = 3,
    SHOW_EVERY = 500,
    REAL_SECONDS = 60,
    SHRINK_SECONDS = 5,
    VARIANTS = 32,
    ROOM = 128
};

/* What a process says of a seed. */
typedef struct verdict {
    weir_storm_result result;
    weir_err err; /* it could not be tried */
    char why[300];
} verdict;

typedef struct storms {
    weir_storm_wish wish;
    uint64_t first, count;
    int jobs;
    bool live, stops;      /* stops: with the first violation */
    weir_storm_result all; /* sums */
    uint64_t tried, refused, broken;
    uint64_t by_exchange[VARIANTS];
    struct {
        uint64_t seed;
        char what[400];
    } worst[SHRUNK];
} storms;

/* ---- one seed ---- */

static void try_seed(void *arg, uint64_t seed, void *out)
{
    const storms *s = arg;
    verdict *v = out;
    weir_storm storm;

    v->err = weir_storm_draw(seed, &s->wish, &storm);
    if (!v->err)
        v->err = weir_storm_run(&storm, &v->result);
    if (v->err)
        snprintf(v->why, sizeof v->why, "%.299s", weir_why_text());
}

/* In words, if a law is broken; "": none is. */
static const char *broken(const verdict *v, const char *died)
{
    if (died)
        return died;
    return v->err ? v->why : v->result.what;
}

static void add(storms *s, const weir_storm_result *r)
{
    const uint64_t *from = (const uint64_t *)&r->happened;
    uint64_t *to = (uint64_t *)&s->all.happened;

    for (size_t i = 0; i < sizeof r->happened / sizeof *to; i++)
        to[i] += from[i];
    s->all.steps += r->steps;
    s->all.generations += r->generations;
    s->all.joined += r->joined;
    s->all.left += r->left;
    s->all.lost += r->lost;
    s->all.behind += r->behind;
    s->all.checked += r->checked;
    s->all.saved += r->saved;
    s->all.resumed += r->resumed;
    s->by_exchange[r->variant < VARIANTS ? r->variant : VARIANTS - 1] += !r->refused;
}

static bool tried(void *arg, uint64_t seed, const void *result, const char *died)
{
    storms *s = arg;
    const verdict *v = result;
    const char *what = broken(v, died);

    s->tried++;
    if (v && !v->err) {
        s->refused += v->result.refused;
        add(s, &v->result);
    }
    if (*what) {
        if (s->broken < SHRUNK) {
            s->worst[s->broken].seed = seed;
            snprintf(s->worst[s->broken].what, sizeof s->worst->what, "%.399s", what);
        }
        s->broken++;
        printf("%sseed %llu: %s\n", s->live ? "\r" : "", (unsigned long long)seed, what);
    }
    if (s->live && s->tried % 20 == 0)
        printf("\r%llu of %llu seeds, %llu violations ", (unsigned long long)s->tried,
               (unsigned long long)s->count, (unsigned long long)s->broken);
    else if (!s->live && s->tried % SHOW_EVERY == 0)
        printf("%llu of %llu seeds, %llu violations\n", (unsigned long long)s->tried,
               (unsigned long long)s->count, (unsigned long long)s->broken);
    fflush(stdout);
    return !(s->stops && s->broken);
}

/* The signal that it was told to stop by. */
static volatile sig_atomic_t told;

static void on_signal(int number) { told = number; }

static void catch_signals(void)
{
    struct sigaction catch = {.sa_handler = on_signal}, was;

    for (int *s = (int[]){SIGINT, SIGTERM, SIGHUP, 0}; *s; s++)
        if (!sigaction(*s, NULL, &was) && was.sa_handler != SIG_IGN) /* nohup's wish */
            sigaction(*s, &catch, NULL);
}

static weir_err try_all(storms *s)
{
    weir_trials t = {s->jobs, s->first, s->count, REAL_SECONDS, sizeof(verdict),
                     s,       try_seed, tried,    &told};

    fflush(stdout);
    return weir_trials_run(&t);
}

/* ---- smaller ---- */

static bool took(void *arg, uint64_t seed, const void *result, const char *died)
{
    storms *s = arg;
    const char *what = broken(result, died);

    (void)seed;
    s->broken = *what != 0;
    if (*what)
        snprintf(s->worst[0].what, sizeof s->worst->what, "%.399s", what);
    return true;
}

/* Whether the storm is still a bad one without these faults; and how. */
static weir_err still_broken(storms *one, uint32_t without, bool *yes, char what[400])
{
    weir_trials t = {1, one->first, 1, SHRINK_SECONDS, sizeof(verdict), one, try_seed, took, &told};

    one->wish.without = without;
    WEIR_TRY(weir_trials_run(&t));
    *yes = one->broken > 0 && !told;
    if (*yes)
        memcpy(what, one->worst[0].what, 400);
    return WEIR_OK;
}

static void print_wishes(const storms *s, const char *command)
{
    printf("%s", command);
    if (s->wish.exchange)
        printf(" --exchange %s", s->wish.exchange);
    if (s->wish.codec)
        printf(" --codec %s", s->wish.codec);
    if (s->wish.coll)
        printf(" --coll %s", s->wish.coll);
}

static void print_storm(const storms *s, uint64_t seed, uint32_t without, bool options)
{
    weir_storm_wish wish = s->wish;
    weir_storm storm;
    char text[8192];
    int n = 0;

    wish.without = without;
    wish.room = "OUT";
    if (weir_storm_draw(seed, &wish, &storm))
        return;
    print_wishes(s, "  weir storm");
    printf(" --seed %llu", (unsigned long long)seed);
    for (int i = 0; i < storm.faults; i++)
        if (without >> i & 1)
            printf("%s%d", n++ ? "," : " --without ", i);
    printf("\n");
    for (int i = 0; i < storm.faults; i++) {
        if (without >> i & 1)
            continue;
        weir_storm_say(&storm.fault[i], text, sizeof text);
        printf("    %2d: %s\n", i, text);
    }
    weir_storm_options(&storm, text, sizeof text);
    if (options)
        printf("  a run with %s\n", text);
}

static weir_err shrink(const storms *s, uint64_t seed, const char *first)
{
    storms one = {.wish = s->wish, .first = seed, .jobs = 1};
    uint32_t without = s->wish.without;
    char what[400];
    bool yes, smaller = true;

    snprintf(what, sizeof what, "%.399s", first);
    while (smaller) {
        smaller = false;
        for (int i = 0; i < WEIR_STORM_FAULTS && !told; i++) {
            if (without >> i & 1)
                continue;
            WEIR_TRY(still_broken(&one, without | 1u << i, &yes, what));
            without |= yes ? 1u << i : 0;
            smaller |= yes;
        }
    }
    printf("\nseed %llu, its smallest storm: %s\n", (unsigned long long)seed, what);
    print_storm(s, seed, without, true);
    return WEIR_OK;
}

/* ---- all of them ---- */

static void print_all(const storms *s)
{
    const weir_net_mishaps *m = &s->all.happened;
    typedef unsigned long long ull;

    printf("%s%llu seeds", s->live ? "\r" : "", (ull)s->tried);
    if (s->refused)
        printf(" (%llu of them refused)", (ull)s->refused);
    printf(": %llu steps, %llu generations, %llu sums compared\n", (ull)s->all.steps,
           (ull)s->all.generations, (ull)s->all.checked);
    printf("happened: %llu kills, %llu pauses, %llu cuts, %llu heals, %llu joins, %llu leaves\n",
           (ull)m->kills, (ull)m->pauses, (ull)m->cuts, (ull)m->heals, (ull)m->joins,
           (ull)s->all.left);
    printf("packets: %llu delayed, %llu dropped, %llu corrupt, %llu twice\n", (ull)m->delayed,
           (ull)m->dropped, (ull)m->corrupted, (ull)m->duplicated);
    printf("ranks: %llu lost, %llu a step behind\n", (ull)s->all.lost, (ull)s->all.behind);
    printf("checkpoints: %llu saved, %llu runs went on from one\n", (ull)s->all.saved,
           (ull)s->all.resumed);
    printf("exchanges:");
    for (int i = 0; weir_exchanges[i] && i < VARIANTS; i++)
        printf("%s %llu %s", i ? "," : "", (ull)s->by_exchange[i], weir_exchanges[i]->name);
    printf("\n%llu violations\n", (ull)s->broken);
}

static weir_err read_number(const char *name, const char *text, double least, uint64_t *out)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);

    if (end == text || *end || *text == '-' || (double)n < least)
        return weir_fail(WEIR_USAGE, "--%s %s: a whole number from %.0f up was expected", name,
                         text, least);
    *out = n;
    return WEIR_OK;
}

static weir_err read_without(const char *text, uint32_t *without)
{
    char *end;

    for (const char *at = text; at && *at; at = *end ? end + 1 : end) {
        unsigned long n = strtoul(at, &end, 10);
        if (end == at || n >= WEIR_STORM_FAULTS || (*end && *end != ','))
            return weir_fail(WEIR_USAGE,
                             "--without %s: numbers of faults below %d, parted by commas, were "
                             "expected",
                             text, WEIR_STORM_FAULTS);
        *without |= 1u << n;
    }
    return WEIR_OK;
}

static weir_err read_options(int argc, char **argv, weir_arena *arena, storms *s)
{
    const char *seeds = NULL, *from = NULL, *jobs = NULL, *without = NULL, *first = NULL;
    const cli_extra extra[] = {{"seeds", false, &seeds, ""},     {"from", false, &from, ""},
                               {"first", true, &first, ""},      {"jobs", false, &jobs, ""},
                               {"without", false, &without, ""}, {0}};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    weir_settings set;
    uint64_t n = cores > 0 ? (uint64_t)cores : 1;

    WEIR_TRY(weir_settings_init(&set, arena));
    WEIR_TRY(cli_options(argc, argv, &set, extra, NULL, 0));
    if (weir_settings_given(&set, "seed") && (seeds || from))
        return weir_fail(WEIR_USAGE, "--seed is one storm; --seeds and --from are many: which?");
    s->first = (uint64_t)set.seed;
    s->count = weir_settings_given(&set, "seed") ? 1 : 200;
    if (seeds)
        WEIR_TRY(read_number("seeds", seeds, 1, &s->count));
    if (from)
        WEIR_TRY(read_number("from", from, 0, &s->first));
    if (jobs)
        WEIR_TRY(read_number("jobs", jobs, 1, &n));
    WEIR_TRY(read_without(without, &s->wish.without));
    s->stops = first != NULL;
    s->jobs = (int)(n < s->count ? n : s->count);
    s->wish.exchange = weir_settings_given(&set, "exchange") ? set.exchange : NULL;
    s->wish.codec = weir_settings_given(&set, "codec") ? set.codec : NULL;
    s->wish.coll = weir_settings_given(&set, "coll") ? set.coll : NULL;
    return WEIR_OK;
}

static weir_err try_and_tell(storms *s)
{
    weir_storm storm;

    WEIR_TRY(weir_storm_draw(s->first, &s->wish, &storm)); /* what cannot be is told at once */
    if (s->count == 1)
        print_storm(s, s->first, s->wish.without, true);
    WEIR_TRY(try_all(s));
    print_all(s);
    for (uint64_t i = 0; i < s->broken && i < SHRUNK && !told; i++)
        WEIR_TRY(shrink(s, s->worst[i].seed, s->worst[i].what));
    return WEIR_OK;
}

/* In memory, if that is to be had: what a disk does is not what is tried here. */
static weir_err make_room(char room[ROOM])
{
    const char *in = getenv("TMPDIR");

    if (!in || !*in)
        in = weir_path_exists("/dev/shm") ? "/dev/shm" : "/tmp";
    snprintf(room, ROOM, "%.100s/weir-storm-XXXXXX", in);
    return mkdtemp(room)
               ? WEIR_OK
               : weir_fail(WEIR_DISK, "no directory can be made in %s: %s", in, strerror(errno));
}

static weir_err storm(int argc, char **argv, weir_arena *arena, int *code)
{
    storms s = {.live = isatty(STDOUT_FILENO)};
    char room[ROOM];
    weir_err err;

    WEIR_TRY(read_options(argc, argv, arena, &s));
    WEIR_TRY(make_room(room));
    if (!getenv("WEIR_DEBUG")) /* drawn settings are not to be warned of */
        weir_on_log(NULL, NULL);
    s.wish.room = room;
    catch_signals();
    err = try_and_tell(&s);
    weir_tree_remove(room);
    *code = told ? 128 + told : s.broken > 0;
    return err;
}

int cli_storm(int argc, char **argv)
{
    weir_arena *arena = weir_arena_new();
    int code = 0;
    weir_err err = arena ? storm(argc, argv, arena, &code) : weir_fail_nomem(0);

    if (err)
        code = cli_end(err);
    weir_arena_free(arena);
    return code;
}
