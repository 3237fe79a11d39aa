#include "help_ranks.h"
#include "core/file.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };
typedef struct one {
    weir_place place;
    weir_err (*fn)(weir_net *, void *);
    void *arg;
    weir_err err;
    char why[WEIR_WHY_MAX];
} one;

static void *run_one(void *arg)
{
    one *o = arg;

    o->err = weir_net_run("auto", &o->place, o->fn, o->arg);
    snprintf(o->why, sizeof o->why, "%s", weir_why_text());
    return NULL;
}

const char *run_ranks(int size, weir_err (*fn)(weir_net *, void *), void *arg)
{
    static char text[WEIR_WHY_MAX + 32];
    static one rank[MOST];
    pthread_t thread[MOST];
    char dir[] = "/tmp/weir-test-XXXXXX";

    if (!mkdtemp(dir))
        return "no temporary directory";
    for (int i = 0; i < size; i++) {
        rank[i] = (one){.place = {.rank = i, .size = size, .local_rank = i, .local_size = size, .source = "test", .host = "here",
                                  .timeout = 10, .stall = 60}, .fn = fn, .arg = arg};
        snprintf(rank[i].place.run_dir, sizeof rank[i].place.run_dir, "%s/run", dir);
        pthread_create(&thread[i], NULL, run_one, &rank[i]);
    }
    text[0] = 0;
    for (int i = 0; i < size; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < size && !text[0]; i++)
        if (rank[i].err && rank[i].err != WEIR_LOST)
            snprintf(text, sizeof text, "rank %d: %s", i, rank[i].why);
    for (int i = 0; i < size && !text[0]; i++)
        if (rank[i].err)
            snprintf(text, sizeof text, "rank %d: %s", i, rank[i].why);
    weir_tree_remove(dir);
    return text;
}
