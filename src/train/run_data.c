/* run_data.c - see run_data.h. */
#include "train/run_data.h"
#include "core/hash.h"
#include "core/log.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- where they are ---- */

weir_err weir_run_data_find(weir_settings *s, const char *run)
{
    char up[4200], beside[PATH_MAX], *near;

    snprintf(up, sizeof up, "%s/..", run);
    if (!s->data || !realpath(up, beside) || !(near = weir_data_spec_near(s->data, beside)))
        return WEIR_OK;
    s->data_kept = s->data;
    s->data = weir_copy_text(s->arena, near);
    free(near);
    return s->data ? WEIR_OK : weir_fail_nomem(strlen(s->data_kept));
}

/* ---- do all ranks run the same thing? ---- */

enum { CONTENTS = 4 };
typedef struct agreeing {
    weir_trainer *t;
    weir_content content[CONTENTS];
} agreeing;

/* Before anything collective is tried with settings that may differ. */
static weir_err agree_job(void *arg)
{
    agreeing *a = arg;
    weir_trainer *t = a->t;
    char more[200];

    snprintf(more, sizeof more, "training-samples %llu\ntest-samples %llu\nclasses %lld\n",
             (unsigned long long)t->data.facts.count[WEIR_DATA_TRAIN],
             (unsigned long long)t->data.facts.count[WEIR_DATA_TEST],
             (long long)t->data.facts.classes);
    WEIR_TRY(weir_agree_settings(&t->mesh.all, t->set, more, t->mesh.arena));
    return weir_agree_contents(&t->mesh.all, a->content, CONTENTS, t->mesh.arena);
}

/* Hashes are taken here and not on the comm task, which has signs of life to give. */
static weir_err agree(weir_trainer *t)
{
    const char *learnt = t->learnt ? t->learnt : "";
    agreeing a = {t,
                  {{"model file", weir_hash(t->model_file.text, t->model_file.n, 0)},
                   {"checkpoint (what its data taught)", weir_hash(learnt, strlen(learnt), 0)},
                   {"training part", weir_data_hash(&t->data, WEIR_DATA_TRAIN)},
                   {"test part", weir_data_hash(&t->data, WEIR_DATA_TEST)}}};

    return weir_line_call(t->line, agree_job, &a);
}

/* ---- what the run was trained on ---- */

static const char *const part_name[WEIR_DATA_PARTS] = {"training", "test"};

/* The samples of a text are as many as the batch makes them, and say nothing. */
static bool has_changed(weir_trainer *t, weir_data_part part)
{
    const struct weir_data_trained *was = &t->data.trained[part];
    const weir_data_facts *is = &t->data.facts;

    return was->hash != weir_data_hash(&t->data, part) ||
           (!is->streams[part] && was->count != is->count[part]);
}

static void warn_of_change(weir_trainer *t, weir_data_part part)
{
    static const char apart[] = "; figures cannot be compared with those before",
                      met[] = ", and what it was trained on may be part of it";
    unsigned long long was = t->data.trained[part].count, is = t->data.facts.count[part];
    bool test = part == WEIR_DATA_TEST;

    if (has_changed(t, part))
        weir_warned_add(&t->warned,
                        "the %s part is not the one that the run had when it was saved (%llu "
                        "samples then, %llu now): what the training part taught it then is "
                        "kept%s%s",
                        part_name[part], was, is, test ? apart : "", t->test_only ? met : "");
}

/* Other names for the run's data hold if those are what is there. */
static weir_err check_found(weir_trainer *t)
{
    const char *kept = t->set->data_kept, *found = t->set->data;

    if (!kept)
        return WEIR_OK;
    for (int part = t->test_only ? WEIR_DATA_TEST : 0; t->learnt && part < WEIR_DATA_PARTS; part++)
        if (has_changed(t, (weir_data_part)part))
            return weir_fail(WEIR_INVALID,
                             "data %s: it is not there, and %s is not what the run was trained on: "
                             "the %s part differs; say with --data where the data are",
                             kept, found, part_name[part]);
    if (weir_group_leads(&t->mesh.all))
        weir_warned_add(&t->warned, "data %s: it is not there; %s is used", kept, found);
    else
        weir_log(WEIR_LOG_INFO, "train", "data %s: it is not there; %s is used", kept, found);
    return WEIR_OK;
}

/* In a run that learns there are some in the test part only, and the log counts them. */
static void warn_of_unknown(weir_trainer *t, weir_data_part part)
{
    uint64_t n = t->data.facts.unknown[part];

    if (n)
        weir_warned_add(&t->warned,
                        "%llu tokens of the %s part are not in the vocabulary that the run was "
                        "trained with: they are %s",
                        (unsigned long long)n, part_name[part],
                        t->data.facts.left_out ? "left out" : "<unk>");
}

weir_err weir_run_data_open(weir_trainer *t)
{
    weir_data_need need = {.batch = t->set->batch,
                           .lessons = t->learnt,
                           .test_only = t->learnt && t->test_only};

    weir_err err = weir_data_open(t->set->data, &need, t->arena, &t->data);

    if (err)
        return err == WEIR_DAMAGED ? weir_fail_in(err, "%s", t->learnt_at) : err;
    if (t->mesh.all.size > 1 && !weir_net_simulated(t->net))
        WEIR_TRY(agree(t));
    WEIR_TRY(check_found(t));
    if (!weir_group_leads(&t->mesh.all))
        return t->facts.elastic ? weir_data_lessons(&t->data, t->arena, &t->lessons) : WEIR_OK;
    for (int part = 0; t->learnt && part < WEIR_DATA_PARTS; part++) {
        if (!t->test_only || (t->own_data && part == WEIR_DATA_TEST))
            warn_of_change(t, (weir_data_part)part);
        warn_of_unknown(t, (weir_data_part)part);
    }
    return t->set->out || t->rank_info->guests ? weir_data_lessons(&t->data, t->arena, &t->lessons)
                                               : WEIR_OK;
}
