/* test_launch.c - the launcher, with this program as what it launches; and the variables that ranks
 * find their place by. */
#include "help_ranks.h"
#include "net/launch.h"
#include "net/rank_info.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* after those it needs */
#include <cmocka.h>

/* ---- the program: `test_launch run MODE SIZE`, first as the launcher, then as each rank ---- */

static weir_err watch_lifeline(void *arg)
{
    char byte;

    while (read(*(int *)arg, &byte, 1) > 0)
        ;
    _exit(WEIR_LOST);
}

/* All ranks send to all until something ends it; ready after the first round. */
static weir_err exchange(weir_net *n, void *arg)
{
    uint64_t rounds = *(uint64_t *)arg;
    int x;

    for (uint32_t step = 1; step <= rounds; step++) {
        weir_net_phase(n, WEIR_PHASE_EXCHANGE, step);
        for (int p = 0; p < weir_net_size(n); p++)
            WEIR_TRY(weir_net_send_wait(n, p, weir_tag(WEIR_CHANNEL_TEST, step, 0), &p, sizeof p));
        for (int p = 0; p < weir_net_size(n); p++)
            WEIR_TRY(
                weir_net_recv_wait(n, p, weir_tag(WEIR_CHANNEL_TEST, step, 0), &x, sizeof x, NULL));
        if (step == 1)
            printf("rank %d pid %d run %s;\n", weir_net_rank(n), (int)getpid(), getenv("WEIR_RUN"));
    }
    return WEIR_OK;
}

static weir_err one_fails(weir_net *n, void *arg)
{
    weir_net_phase(n, WEIR_PHASE_LOAD, 0);
    if (weir_net_rank(n) != 1)
        return exchange(n, arg);
    for (int i = 0; i < 12; i++)
        fprintf(stderr, "line %d of rank 1\n", i);
    return weir_fail(WEIR_INVALID, "the data file is bad");
}

static void leave_now(int n) { _exit(128 + n); }

static int be_rank(const char *mode)
{
    static weir_launched launched;
    static uint64_t rounds;
    weir_rank_info rank_info;
    weir_task *task;
    weir_err err = weir_rank_info_find(-1, 0, NULL, &rank_info);

    setvbuf(stdout, NULL, _IOLBF, 0);
    weir_launched_find(&launched);
    if (!err && launched.lifeline >= 0)
        err = weir_task_start(weir_rt_threads(), "lifeline", watch_lifeline, &launched.lifeline,
                              &task);
    if (!strcmp(mode, "handle"))
        signal(SIGTERM, leave_now);
    if (!strcmp(mode, "early") && rank_info.rank == 1)
        _exit(3);
    if (!strcmp(mode, "sleep"))
        return sleep(30), 0;
    rounds = !strcmp(mode, "ok") ? 20 : UINT32_MAX;
    rank_info.timeout = 1;
    if (!err)
        err =
            weir_net_run("auto", &rank_info, !strcmp(mode, "fail") ? one_fails : exchange, &rounds);
    if (err)
        fprintf(stderr, "weir: error: %s\n", weir_why_text());
    _exit(weir_err_exit(err)); /* the lifeline's thread still reads */
}

static int be_program(char **argv)
{
    int code;

    if (getenv("WEIR_RUN"))
        return be_rank(argv[2]);
    if (weir_launch(&(weir_launching){.workers = atoi(argv[3]), .argv = argv}, &code)) {
        fprintf(stderr, "weir: error: %s\n", weir_why_text());
        return 99;
    }
    return code;
}

/* ---- tests ---- */

typedef struct run {
    child c;
    int pid[4];
    char dir[128];
} run;

static void start(run *r, const char *mode, const char *size)
{
    *r = (run){0};
    child_start(&r->c, (char *[]){"run", (char *)mode, (char *)size, NULL});
}

/* Waits until all ranks have said who they are, in whole lines. */
static void read_ranks(run *r, int size)
{
    for (int i = 0; i < size; i++) {
        char word[32], *at;
        snprintf(word, sizeof word, "rank %d pid ", i);
        assert_true(child_says(&r->c, word, 60));
        while (!strchr(at = strstr(r->c.text, word), ';'))
            assert_true(child_more(&r->c, 60));
        assert_int_equal(sscanf(at + strlen(word), "%d run %127[^;]", &r->pid[i], r->dir), 2);
    }
}

static int count(const char *text, const char *word)
{
    int n = 0;

    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

static int end(run *r)
{
    int status = child_end(&r->c, 30);

    assert_true(WIFEXITED(status));
    if (r->dir[0])
        assert_int_not_equal(access(r->dir, F_OK), 0);
    return WEXITSTATUS(status);
}

static void test_ok(void **state)
{
    run r;

    (void)state;
    start(&r, "ok", "3");
    read_ranks(&r, 3);
    assert_int_equal(end(&r), 0);
    assert_int_equal(count(r.c.text, "weir: "), 0);
    assert_says(r.c.text, "[1] rank 1 pid");
    assert_says(r.c.text, "[2] rank 2 pid");
    assert_null(strstr(r.c.text, "[0]"));
    start(&r, "ok", "1");
    assert_int_equal(end(&r), 0);
    start(&r, "ok", "0");
    assert_int_equal(end(&r), 99);
}

static void test_fails(void **state)
{
    char line[256];
    run r;

    (void)state;
    for (int k = 0; k < 5; k++) {
        start(&r, "fail", "3");
        assert_int_equal(end(&r), WEIR_INVALID);
        assert_int_equal(count(r.c.text, "weir: error: "), 1);
        assert_says(r.c.text, "weir: error: rank 1 (host ");
        assert_says(r.c.text,
                    ", phase load): the data file is bad (exit 17)\n  line 2 of rank 1\n  line 3");
        snprintf(line, sizeof line, "[1] line 0 of rank 1\n");
        assert_says(r.c.text, line);
        assert_null(strstr(r.c.text, "  line 1 of")); /* the last ten only */
    }
    start(&r, "early", "3");
    assert_int_equal(end(&r), 3);
    assert_says(r.c.text, ", phase start): left without a word (exit 3)");
}

static void test_killed(void **state)
{
    const char *repeats = getenv("REPEATS");

    (void)state;
    for (int k = 0; k < (repeats ? atoi(repeats) : 3); k++) {
        char who[64];
        run r;
        double t;
        start(&r, "endless", "3");
        read_ranks(&r, 3);
        kill(r.pid[k % 3], SIGKILL);
        t = seconds_now();
        assert_int_equal(end(&r), WEIR_LOST);
        assert_true(seconds_now() - t < 5);
        assert_int_equal(count(r.c.text, "weir: error: "), 1);
        snprintf(who, sizeof who, ", pid %d) was killed by signal 9 in phase exchange of step ",
                 r.pid[k % 3]);
        assert_says(r.c.text, who);
        assert_says(r.c.text, " (exit 10)\n");
    }
}

static void test_stopped(void **state)
{
    char who[64];
    run r;

    (void)state;
    start(&r, "endless", "3");
    read_ranks(&r, 3);
    kill(r.pid[1], SIGSTOP);
    assert_int_equal(end(&r), WEIR_SILENT);
    assert_int_equal(count(r.c.text, "weir: error: "), 1);
    snprintf(who, sizeof who, "weir: error: rank 1 (host ");
    assert_says(r.c.text, who);
    snprintf(who, sizeof who, ", pid %d) was silent for ", r.pid[1]);
    assert_says(r.c.text, who);
    assert_says(r.c.text, "last seen in phase exchange of step ");
    assert_says(r.c.text, "(exit 11)\n");
}

static void test_asked(void **state)
{
    run r;

    (void)state;
    for (int k = 0; k < 2; k++) {
        start(&r, k ? "handle" : "endless", "3"); /* they leave with 128 + 15, or die of it */
        read_ranks(&r, 3);
        kill(r.c.pid, SIGTERM);
        assert_int_equal(end(&r), 128 + SIGTERM);
        assert_int_equal(count(r.c.text, "weir: error: "), 0);
    }
}

/* gone, or dead and waiting for somebody to reap it */
static bool gone(int pid)
{
    char path[64], state = 'Z';
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (!(f = fopen(path, "r")))
        return true;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(f);
    return state == 'Z' || state == 'X';
}

/* The launcher is killed: its ranks leave, even one that is stopped. */
static void test_launcher_killed(void **state)
{
    const char *repeats = getenv("REPEATS");

    (void)state;
    for (int k = 0; k < (repeats ? atoi(repeats) : 2); k++) {
        run r;
        double until;
        start(&r, "endless", "3");
        read_ranks(&r, 3);
        if (k % 2)
            kill(r.pid[2], SIGSTOP);
        kill(r.c.pid, SIGKILL);
        until = seconds_now() + 10;
        for (int i = 0; i < 3; i++)
            while (!gone(r.pid[i])) {
                assert_true(seconds_now() < until);
                usleep(2000);
            }
        assert_int_not_equal(access(r.dir, F_OK), 0);
        child_end(&r.c, 5);
    }
}

/* ---- places ---- */

static const char *const names[] = {"RANK",        "WORLD_SIZE",  "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                    "MASTER_ADDR", "MASTER_PORT", "WEIR_RUN",   "WEIR_BOARD"};
static const char *const more_names[] = {"OMPI_COMM_WORLD_RANK",
                                         "OMPI_COMM_WORLD_SIZE",
                                         "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "OMPI_COMM_WORLD_LOCAL_SIZE",
                                         "PMI_RANK",
                                         "PMI_SIZE",
                                         "MPI_LOCALRANKID",
                                         "MPI_LOCALNRANKS",
                                         "SLURM_PROCID",
                                         "SLURM_NTASKS",
                                         "SLURM_LOCALID",
                                         "SLURM_NODEID",
                                         "SLURM_STEP_ID",
                                         "SLURM_JOB_ID",
                                         "SLURM_JOB_NODELIST",
                                         "SLURM_STEP_NODELIST",
                                         "SLURM_TASKS_PER_NODE",
                                         "SLURM_STEP_TASKS_PER_NODE",
                                         "TORCHELASTIC_RUN_ID",
                                         "TORCHELASTIC_RESTART_COUNT",
                                         NULL};
enum { NAMES = sizeof names / sizeof names[0] };

/* Sets the variables to these values (NULL: unset) and looks. */
static weir_err look(const char *const value[NAMES], weir_rank_info *p)
{
    for (int i = 0; i < NAMES; i++)
        if (value[i])
            setenv(names[i], value[i], 1);
        else
            unsetenv(names[i]);
    return weir_rank_info_find(-1, 0, NULL, p);
}

static void test_variables(void **state)
{
    const char *good[NAMES] = {"1", "4", "1", "2", "node7", "29500", NULL, NULL}, *v[NAMES];
    weir_rank_info p;

    (void)state;
    assert_int_equal(look((const char *[NAMES]){0}, &p), WEIR_OK);
    assert_string_equal(p.source, "alone");
    assert_true(p.rank == 0 && p.size == 1 && !p.run_dir[0] && p.host[0] && p.timeout == 30 &&
                p.stall == 600);
    assert_int_equal(look(good, &p), WEIR_OK);
    assert_string_equal(p.source, "torchrun");
    assert_string_equal(p.rendezvous, "node7:29501");
    assert_true(p.rank == 1 && p.size == 4 && p.local_rank == 1 && p.local_size == 2 && !p.board);
    for (int i = 0; i < 6; i++) /* one is missing: named */
        if (i != 3) {
            memcpy(v, good, sizeof v);
            v[i] = NULL;
            assert_int_equal(look(v, &p), WEIR_USAGE);
            assert_says(weir_why_text(), names[i]);
        }
    static const struct {
        int at;
        const char *value;
    } bad[] = {{0, "-1"},      {0, "4"},     {0, "x"},
               {0, ""},        {0, "1 "},    {0, "99999999999999999999"},
               {1, "0"},       {1, "-4"},    {1, "1"},
               {2, "2"},       {2, "-2"},    {3, "5"},
               {3, "0"},       {4, ""},      {4, "a b"},
               {5, "0"},       {5, "70000"}, {5, "12x"},
               {6, "relative"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(v, good, sizeof v);
        v[bad[i].at] = bad[i].value;
        assert_int_equal(look(v, &p), WEIR_USAGE);
    }
    memcpy(v, good, sizeof v);
    v[6] = "/tmp/weir-0";
    v[7] = "99,98"; /* nothing there: no board, but a place all the same */
    assert_int_equal(look(v, &p), WEIR_OK);
    assert_string_equal(p.source, "weir");
    assert_string_equal(p.run_dir, "/tmp/weir-0");
    assert_true(!p.board && !p.rendezvous[0]);
    look((const char *[NAMES]){0}, &p);
}

/* Variables of those who start MPI programs: they tell the rank, if nobody before them does, and
 * may not be contradicted. */
static void test_mpi_variables(void **state)
{
    static const char *const set[][4] = {
        {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
        {"slurm", "PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID"},
    };
    weir_rank_info p;

    (void)state;
    look((const char *[NAMES]){0}, &p);
    assert_false(p.mpi);
    for (int i = 0; i < 3; i++) {
        setenv(set[i][1], "2", 1);
        setenv(set[i][2], "4", 1);
        setenv(set[i][3], "2", 1);
        if (i == 2) /* as under srun */
            setenv("SLURM_PROCID", "2", 1), setenv("SLURM_STEP_ID", "0", 1),
                setenv("SLURM_JOB_ID", "7", 1), setenv("SLURM_JOB_NODELIST", "node7", 1);
        assert_int_equal(weir_rank_info_find(-1, 0, NULL, &p), WEIR_OK);
        assert_string_equal(p.source, set[i][0]);
        assert_true(p.rank == 2 && p.size == 4 && p.local_rank == 2 && p.mpi);
        assert_int_equal(weir_rank_info_find(2, 4, "host:99", &p), WEIR_OK);
        assert_true(p.mpi);
        assert_int_equal(weir_rank_info_find(2, 3, "host:99", &p), WEIR_MISFIT);
        assert_says(weir_why_text(), "3 ranks");
        assert_says(weir_why_text(), "4 by");
        assert_int_equal(weir_rank_info_find(1, 4, "host:99", &p), WEIR_MISFIT);
        assert_int_equal(
            look((const char *[NAMES]){"1", "2", "1", "2", "node7", "29500", NULL, NULL}, &p),
            WEIR_OK);
        assert_string_equal(p.source, "torchrun"); /* started by a program that MPI started */
        assert_true(p.rank == 1 && p.size == 2 && !p.mpi);
        setenv(set[i][1], "4", 1);
        assert_int_equal(look((const char *[NAMES]){0}, &p), WEIR_USAGE);
        assert_says(weir_why_text(), set[i][1]);
        for (int k = 1; k < 4; k++)
            unsetenv(set[i][k]);
    }
    unsetenv("SLURM_PROCID"), unsetenv("SLURM_STEP_ID"), unsetenv("SLURM_JOB_ID"),
        unsetenv("SLURM_JOB_NODELIST");
}

static void test_flags(void **state)
{
    weir_rank_info p;

    (void)state;
    assert_int_equal(weir_rank_info_find(1, 2, "host:99", &p), WEIR_OK);
    assert_string_equal(p.source, "flags");
    assert_int_equal(weir_rank_info_find(0, 1, NULL, &p), WEIR_OK);
    assert_int_equal(weir_rank_info_find(1, 2, NULL, &p), WEIR_USAGE);
    assert_says(weir_why_text(), "--rendezvous");
    assert_int_equal(weir_rank_info_find(-1, 2, "host:99", &p), WEIR_USAGE);
    assert_says(weir_why_text(), "--rank is missing");
    assert_int_equal(weir_rank_info_find(1, 0, "host:99", &p), WEIR_USAGE);
    assert_says(weir_why_text(), "--size is missing");
    assert_int_equal(weir_rank_info_find(2, 2, "host:99", &p), WEIR_USAGE);
    assert_int_equal(weir_rank_info_find(-7, 2, "host:99", &p), WEIR_USAGE);
    assert_int_equal(weir_rank_info_find(1, -2, "host:99", &p), WEIR_USAGE);
    assert_int_equal(weir_rank_info_find(1, 2, "host", &p), WEIR_USAGE);
    assert_int_equal(weir_rank_info_find(1, 2, ":99", &p), WEIR_USAGE);
    assert_int_equal(weir_rank_info_find(1, 2, "host:0", &p), WEIR_USAGE);
}

/* ---- other launchers ---- */

/* Only these variables are set (name, value, ..., NULL), and what is found by them. */
static weir_err look_at(const char *const *set, weir_rank_info *p)
{
    for (const char *const *n = more_names; *n; n++)
        unsetenv(*n);
    for (; set && *set; set += 2)
        setenv(set[0], set[1], 1);
    return look((const char *[NAMES]){0}, p);
}

static void test_other_launchers(void **state)
{
    static const char *const ompi[] = {"OMPI_COMM_WORLD_RANK",
                                       "5",
                                       "OMPI_COMM_WORLD_SIZE",
                                       "8",
                                       "OMPI_COMM_WORLD_LOCAL_RANK",
                                       "1",
                                       "OMPI_COMM_WORLD_LOCAL_SIZE",
                                       "4",
                                       "SLURM_PROCID",
                                       "0",
                                       "SLURM_NTASKS",
                                       "2",
                                       "SLURM_STEP_ID",
                                       "0",
                                       NULL};
    static const char *const pmi[] = {
        "PMI_RANK", "1", "PMI_SIZE", "2", "MPI_LOCALRANKID", "1", "MPI_LOCALNRANKS", "2", NULL};
    static const char *const slurm[] = {"SLURM_PROCID",
                                        "3",
                                        "SLURM_NTASKS",
                                        "5",
                                        "SLURM_LOCALID",
                                        "1",
                                        "SLURM_NODEID",
                                        "1",
                                        "SLURM_STEP_ID",
                                        "2",
                                        "SLURM_JOB_ID",
                                        "77",
                                        "SLURM_JOB_NODELIST",
                                        "node[07-09,12],x",
                                        "SLURM_STEP_TASKS_PER_NODE",
                                        "2(x2),1",
                                        NULL};
    weir_rank_info p;

    (void)state;
    assert_int_equal(look_at(ompi, &p), WEIR_OK);
    assert_string_equal(p.source, "openmpi");
    assert_true(p.rank == 5 && p.size == 8 && p.local_rank == 1 && p.local_size == 4 &&
                !p.rendezvous[0]);
    assert_int_equal(look_at(pmi, &p), WEIR_OK);
    assert_string_equal(p.source, "pmi");
    assert_true(p.rank == 1 && p.size == 2 && p.local_size == 2);
    assert_int_equal(look_at((const char *[]){"PMI_RANK", "1", NULL}, &p), WEIR_USAGE);
    assert_says(weir_why_text(), "PMI_SIZE is not set, but PMI_RANK is");
    assert_int_equal(look_at((const char *[]){"PMI_RANK", "2", "PMI_SIZE", "2", NULL}, &p),
                     WEIR_USAGE);
    assert_int_equal(look_at(slurm, &p), WEIR_OK);
    assert_string_equal(p.source, "slurm");
    assert_true(p.rank == 3 && p.size == 5 && p.local_rank == 1 && p.local_size == 2);
    assert_string_equal(p.job, "slurm 77 step 2");
    assert_true(!strncmp(p.rendezvous, "node07:2", 8));
    /* a job's script is no rank */
    assert_int_equal(look_at((const char *[]){"SLURM_PROCID", "0", "SLURM_NTASKS", "5",
                                              "SLURM_JOB_ID", "77", NULL},
                             &p),
                     WEIR_OK);
    assert_string_equal(p.source, "alone");
    look_at(NULL, &p);
}

static void test_slurm_lists(void **state)
{
    static const struct {
        const char *list, *first;
    } hosts[] = {{"a", "a"},
                 {"a,b", "a"},
                 {"n[1-3]", "n1"},
                 {"n[007,9]", "n007"},
                 {"n[1-2]-ib,m", "n1-ib"},
                 {"n.x.y,b[1-2]", "n.x.y"},
                 {"rack[1-2]node[03-04]x,y", "rack1node03x"}};
    char host[32];

    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        assert_true(weir_slurm_first_host(hosts[i].list, host, sizeof host));
        assert_string_equal(host, hosts[i].first);
    }
    assert_false(weir_slurm_first_host("", host, sizeof host));
    assert_false(weir_slurm_first_host("n[", host, sizeof host));
    assert_false(weir_slurm_first_host("n[1-2]m[3", host, sizeof host));
    assert_false(weir_slurm_first_host("n[1-2]a-name-of-thirty-characters", host, 20));
    assert_false(weir_slurm_first_host("n[x]", host, sizeof host));
    assert_false(
        weir_slurm_first_host("a-name-of-far-more-than-thirty-one-characters", host, sizeof host));
    assert_int_equal(weir_slurm_tasks("2(x3),1", 2), 2);
    assert_int_equal(weir_slurm_tasks("2(x3),1", 3), 1);
    assert_int_equal(weir_slurm_tasks("2(x3),1", 4), 0);
    assert_int_equal(weir_slurm_tasks("4", 0), 4);
    assert_int_equal(weir_slurm_tasks("x", 0), 0);
    assert_int_equal(weir_slurm_tasks("2(x", 9), 0);
}

static void test_torchrun(void **state)
{
    const char *v[NAMES] = {"1", "4", "1", "2", "fe80::1", "65535", NULL, NULL};
    weir_rank_info p;

    (void)state;
    setenv("TORCHELASTIC_RUN_ID", "abc", 1);
    setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
    assert_int_equal(look(v, &p), WEIR_OK);
    assert_string_equal(p.rendezvous, "[fe80::1]:65534");
    assert_string_equal(p.job, "torchrun abc attempt 2");
    look_at(NULL, &p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables),       cmocka_unit_test(test_mpi_variables),
        cmocka_unit_test(test_flags),           cmocka_unit_test(test_ok),
        cmocka_unit_test(test_fails),           cmocka_unit_test(test_killed),
        cmocka_unit_test(test_stopped),         cmocka_unit_test(test_asked),
        cmocka_unit_test(test_launcher_killed), cmocka_unit_test(test_other_launchers),
        cmocka_unit_test(test_slurm_lists),     cmocka_unit_test(test_torchrun),
    };

    if (argc > 3 && !strcmp(argv[1], "run"))
        return be_program(argv);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
