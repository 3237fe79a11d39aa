/* help.c - weir help and weir list: read off the tables, so that they show what exists and nothing
 * else. */
#include "cli/cli.h"
#include "codec/codec.h"
#include "coll/coll.h"
#include "data/data.h"
#include "exchange/exchange.h"
#include "nn/layer.h"
#include "optim/rate.h"
#include <stdio.h>
#include <string.h>

const cli_command cli_commands[] = {
    {"train", "weir train --model NAME --data SPEC --epochs N [option value]...",
     "trains; starts --workers processes on this machine, or is the rank that --rank or a "
     "launcher's variables name",
     cli_train,
     "--config FILE reads the same keys, one `key value` a line; options on the command line win.",
     "*"},
    {"eval", "weir eval DIR --data SPEC",
     "evaluates the newest whole checkpoint of a run directory, or the one named", cli_eval,
     "DIR is a run directory or a step-N inside it. Without --data and --model the run's own are "
     "used.\nOther data are standardised and numbered as the run's training part was; they need "
     "no training part of their own.",
     " data model threads batch "},
    {"bench",
     "weir bench compute|train|allreduce|codec [--model M] [--batch N] [--steps N] [--threads T] "
     "[--workers P] [--json]",
     "measures whole steps on synthetic data, a collective, or a codec", cli_bench,
     "compute and train: --steps N (20) timed steps after 3 untimed ones; train also takes "
     "--exchange --codec --coll --net --optim.\n"
     "allreduce: --floats N and --coll C (all that fit, if not given). codec: --floats N and "
     "--codec C (all, if not given), on one core. --json prints one JSON object a line.\n"
     "Times under --net sim are virtual; --profile FILE, as a real bench train has written it, "
     "says "
     "what computing costs there: it is scaled to a worker's samples.",
     " model data batch accumulate steps threads workers exchange codec coll net optim lr clip "
     "exact profile seed timeout stall rank size rendezvous key insecure "},
    {"storm",
     "weir storm [--seeds N] [--from N] [--seed N] [--exchange SPEC] [--codec SPEC] [--coll SPEC]",
     "tries small runs under faults in the simulated world, and checks what must hold of each",
     cli_storm,
     "--seeds N (200) storms, from --from (1) on; or --seed N, that one. A seed stands for a small "
     "run and for its kills, pauses, cuts,\n"
     "joins, leaves and bad links; what is not named is drawn. Checked: one history, quorums, "
     "sums, what is held back, samples, waits,\n"
     "ends, log, checkpoints. A violation (exit 1) prints the command that repeats it, with as few "
     "faults as it takes: --without I,J,...\n"
     "leaves faults out. --first: ends with the first. --jobs N: processes (cores).",
     " exchange codec coll seed "},
    {"keygen", "weir keygen [FILE]",
     "makes a cluster key, which ranks on several machines know each other by", cli_keygen,
     "FILE is weir.key if none is named; one that exists is left alone. Copy it to every machine "
     "of yours, readable by you alone\n"
     "(chmod 600), and name it on every rank with --key FILE or in WEIR_KEY. Whoever has it can "
     "join your runs.",
     NULL},
    {"list", "weir list [axis]",
     "shows every variant of every axis with its options, defaults and help", cli_list, NULL, NULL},
    {"help", "weir help [command]", "shows help", cli_help, NULL, NULL},
    {0},
};

static void help_command(const cli_command *c)
{
    printf("%s\n%s.\n", c->usage, c->help);
    for (const weir_opt *o = weir_settings_options; o->name; o++)
        if (cli_takes(c->name, o->name)) {
            char head[64];
            snprintf(head, sizeof head, "--%s%s%s", o->name, o->standard ? " " : "",
                     o->standard ? o->standard : "");
            printf("  %-22s %s\n", head, o->help);
        }
    if (c->more)
        printf("%s\n", c->more);
}

/* These commands take one word. */
static weir_err one_word(int argc, char **argv, const char *usage)
{
    return argc < 3 ? WEIR_OK
                    : weir_fail(WEIR_USAGE, "'%s' is one word too many: %s", argv[2], usage);
}

int cli_help(int argc, char **argv)
{
    weir_err err = one_word(argc, argv, "weir help [command]");

    if (err)
        return cli_end(err);
    if (argc > 1) {
        for (const cli_command *c = cli_commands; c->name; c++)
            if (!strcmp(c->name, argv[1]))
                return help_command(c), 0;
        return cli_end(cli_no_command(argv[1]));
    }
    printf("weir %s - trains deep networks on many machines\n\n", weir_version());
    for (const cli_command *c = cli_commands; c->name; c++)
        printf("  %-6s %s\n", c->name, c->help);
    printf("\nFor example:\n  weir train --model lenet --data fashion-mnist --epochs 3 --workers 4 "
           "--lr 0.05\n"
           "weir help COMMAND tells more. Environment: WEIR_DEBUG=warn|info|trace[,net,coll,...], "
           "WEIR_ISA=baseline|avx2|avx512,\n"
           "WEIR_KEY=FILE.\n");
    return 0;
}

/* What bench/convergence holds it to. */
static void print_promise(FILE *f, const weir_plug *plug)
{
    const weir_codec *c = (const weir_codec *)plug;

    if (c->exact)
        return;
    fprintf(f, "      promise: at most %g points of accuracy below dense", c->drop);
    if (c->rate > 0)
        fprintf(f, ", at rate x %g", c->rate);
    fprintf(f, "\n");
}

int cli_list(int argc, char **argv)
{
    const struct {
        const char *name;
        weir_plugs table;
    } axis[] = {{"data", weir_datas},         {"layer", weir_layers}, {"optim", weir_optims},
                {"rate", weir_rates},         {"codec", weir_codecs}, {"coll", weir_colls},
                {"exchange", weir_exchanges}, {"net", weir_nets}};
    bool any = false;
    weir_err err = one_word(argc, argv, "weir list [axis]");

    if (err)
        return cli_end(err);
    if (argc < 2 || !strcmp(argv[1], "model"))
        any = weir_model_list(stdout);
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++)
        if (argc < 2 || !strcmp(argv[1], axis[i].name)) {
            weir_plug_print(stdout, axis[i].table, axis[i].name,
                            axis[i].table == weir_codecs ? print_promise : NULL);
            if (axis[i].table == weir_datas)
                weir_data_print_sets(stdout);
            any = true;
        }
    if (!any)
        return cli_end(weir_fail(
            WEIR_USAGE,
            "there is no axis '%s': model, data, layer, optim, rate, codec, coll, exchange, net",
            argv[1]));
    return 0;
}
