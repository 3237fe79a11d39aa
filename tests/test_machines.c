/* Machines with several workers (allreduce:hier=yes) are to the codec what as many ranks are: the
 * same parameters to the last bit, the same bytes between them, nothing held back but by who leads.
 * All in the simulated world. */
#include "help_held.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The fields of a checkpoint, by name, length and rule. */
typedef struct lister {
    weir_io io;
    uint64_t hash;
} lister;

static weir_err list_range(weir_io *io, const char *name, const weir_io_piece *piece)
{
    lister *l = (lister *)io;

    l->hash = held_fold(l->hash, name, strlen(name));
    l->hash = held_fold(l->hash, &piece->whole, sizeof piece->whole);
    l->hash = held_fold(l->hash, &piece->keep, sizeof piece->keep);
    return WEIR_OK;
}

static weir_err list_u64(weir_io *io, const char *name, uint64_t *p, size_t n, weir_keep keep)
{
    (void)p;
    return list_range(io, name, &(weir_io_piece){.n = n, .whole = n, .keep = keep});
}

static weir_err finish_rank(held_model *m, held_job *j, int me)
{
    lister l = {.io = {.range = list_range, .u64 = list_u64}};

    j->hash[me] = held_fold(1, m->param, sizeof m->param);
    memcpy(j->param[me], m->param, sizeof m->param);
    for (int i = 0; i < m->lanes; i++)
        WEIR_TRY(weir_lane_state(&m->lane[i], &l.io));
    j->fields[me] = l.hash;
    return WEIR_OK;
}

/* ---- two levels ---- */

static weir_err level_rank(weir_net *net, void *arg)
{
    held_job *j = arg;
    weir_arena *a = weir_arena_new();
    held_model *m = WEIR_NEW(a, held_model, 1);
    held_sum *mine = WEIR_NEW(a, held_sum, 1);
    int me = weir_net_rank(net);
    weir_err err = weir_group_all(net, a, &m->g);

    if (!err)
        err = weir_coll_open("auto", &m->g, a, &m->coll);
    if (!err)
        err = held_open(m, j, a);
    for (uint64_t step = 0; step < (uint64_t)j->steps && !err; step++)
        err = held_step(m, j, me / j->split, me % j->split, step);
    if (!err)
        err = finish_rank(m, j, me);
    held_take_sent(m, j);
    held_add(m, &j->held);
    held_add(m, mine);
    for (int i = 0; i < HELD_N; i++)
        j->idle += me % j->split ? mine->size[HELD_BACK][i] + mine->size[HELD_SPEED][i] : 0;
    j->bytes += weir_net_counted(net).sent;
    weir_arena_free(a);
    return err;
}

static held_job *level(const char *net, int size, int split, const char *codec, const char *optim,
                       const char *exchange, double clip)
{
    held_job *j = calloc(1, sizeof *j);
    ranks r = {.net = net, .size = size, .fn = level_rank, .arg = j};

    j->codec = codec;
    j->optim = optim;
    j->exchange = exchange;
    j->clip = clip;
    j->split = split;
    j->steps = 6;
    ranks_all_ok(&r);
    for (int i = 1; i < size; i++)
        if (j->hash[i] != j->hash[0] || j->fields[i] != j->fields[0])
            fail_msg("%s: rank %d has other %s than rank 0", codec, i,
                     j->hash[i] != j->hash[0] ? "parameters" : "fields to save");
    return j;
}

/* Two machines of two are to the codec what two ranks are: the same parameters to the last bit, the
 * same bytes between them. */
static void check_levels(const char *codec, double clip)
{
    const char *optim = "sgd:momentum=0.5";
    held_job *two = level("sim:nodes=2", 2, 1, codec, optim, "allreduce", clip);
    held_job *four = level("sim:nodes=4,machine=2", 4, 2, codec, optim, "allreduce:hier=yes", clip);
    held_job *one = level("sim:nodes=2,machine=2", 2, 2, codec, optim, "allreduce:hier=yes", clip);
    held_job *said = level("sim:nodes=4", 4, 2, codec, optim, "allreduce:hier=yes,each=2", clip);

    if (four->hash[0] != two->hash[0] || said->hash[0] != two->hash[0])
        fail_msg("%s: two machines of two are not as two ranks", codec);
    if (four->bytes != two->bytes + 2 * one->bytes)
        fail_msg("%s: %llu bytes between machines, %llu between two ranks", codec,
                 (unsigned long long)(four->bytes - 2 * one->bytes),
                 (unsigned long long)two->bytes);
    if (four->idle > 0)
        fail_msg("%s: one that does not lead holds something back", codec);
    for (int i = 0; i < HELD_N; i++)
        if (four->held.of[HELD_BACK][i] != two->held.of[HELD_BACK][i])
            fail_msg("%s: element %d: leaders hold back %g, two ranks %g", codec, i,
                     four->held.of[HELD_BACK][i], two->held.of[HELD_BACK][i]);
    free(two);
    free(four);
    free(one);
    free(said);
}

static void levels(void **state)
{
    (void)state;
    for (weir_plugs p = weir_codecs; *p; p++)
        if (!((const weir_codec *)*p)->raw && !((const weir_codec *)*p)->chooses)
            check_levels((*p)->name, 0);
    check_levels("strom:tau=4096,pack=none", 0);
    check_levels("int8:residual=yes", 0);
}

/* Workers of a machine sum, then their sum is clipped, as if it were one worker's. */
static void clipped(void **state)
{
    (void)state;
    check_levels("strom", 100);
    check_levels("onebit", 100);
}

/* Whole numbers that are sent as they are: nothing is rounded. */
static void check_kept(const char *codec)
{
    held_job *j = level("sim:nodes=4,machine=2", 4, 2, codec, "sgd", "allreduce:hier=yes", 0);

    for (int i = 0; i < HELD_N; i++)
        if (j->sent[i] + j->held.of[HELD_BACK][i] != j->put[i])
            fail_msg("%s: element %d: %g sent and %g held back of %g", codec, i, j->sent[i],
                     j->held.of[HELD_BACK][i], j->put[i]);
    free(j);
}

static void kept(void **state)
{
    (void)state;
    check_kept("strom:tau=4096");
    check_kept("topk");
    check_kept("dgc");
    check_kept("redsync:quantise=no,warmup=0");
}

/* On one machine nothing is compressed: gradients are whole numbers, rate and momentum powers of
 * two, so that all is exact and the parameters are those of a dense run, bit for bit. */
static void check_one(const char *codec)
{
    const char *net = "sim:nodes=3,machine=3", *optim = "sgd:momentum=0.5";
    held_job *coded = level(net, 3, 3, codec, optim, "allreduce:hier=yes", 0);
    held_job *dense = level(net, 3, 3, "none", optim, "allreduce", 0);

    for (int i = 0; i < HELD_N; i++)
        if (coded->param[0][i] != dense->param[0][i])
            fail_msg("%s: element %d is %g, dense %g", codec, i, (double)coded->param[0][i],
                     (double)dense->param[0][i]);
    free(coded);
    free(dense);
}

/* Clipped, a step is scaled by a float: that, the momentum and the sum are each rounded once in
 * each of the 6 steps, in both runs; and a momentum of 0.5 keeps at most twice a step's error. */
static void check_one_clipped(const char *codec)
{
    const char *net = "sim:nodes=3,machine=3", *optim = "sgd:momentum=0.5";
    held_job *coded = level(net, 3, 3, codec, optim, "allreduce:hier=yes", 50);
    held_job *dense = level(net, 3, 3, "none", optim, "allreduce", 50);

    for (int i = 0; i < HELD_N; i++) {
        double moved = fabs(dense->sent[i]) * 0.125 + 1; /* parameters begin within 1 */
        if (!(fabs((double)coded->param[0][i] - (double)dense->param[0][i]) <=
              2 * 2 * 6 * 3 * held_rounding * moved))
            fail_msg("%s: element %d is %.9g, dense %.9g", codec, i, (double)coded->param[0][i],
                     (double)dense->param[0][i]);
    }
    free(coded);
    free(dense);
}

static void one_machine(void **state)
{
    (void)state;
    for (weir_plugs p = weir_codecs; *p; p++)
        if (!((const weir_codec *)*p)->raw && !((const weir_codec *)*p)->chooses) {
            check_one((*p)->name);
            check_one_clipped((*p)->name);
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(levels), cmocka_unit_test(clipped),
                                       cmocka_unit_test(kept), cmocka_unit_test(one_machine)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
