/* lessons.c - the lessons of any kind of data as one text: the kind, the parts it was trained on,
 * then what the kind lists itself. */
#include "data/data.h"
#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 1,
    /* A checkpoint's header holds it, with every quote escaped, and may have 100,000,000 bytes. */
    MOST_TEXT = 40 << 20
};

static const char *const part_name[WEIR_DATA_PARTS] = {"training", "test"};

/* ---- one list for both ways ---- */

static weir_err list_part(weir_lesson *l, const char *name, struct weir_data_trained *part)
{
    weir_lesson in = *l;
    int64_t count = (int64_t)part->count;

    if (l->reading && !(in.from = weir_json_get(l->from, name)))
        return weir_lesson_damaged("'%s' is missing", name);
    if (!l->reading)
        in.to = weir_json_object();
    WEIR_TRY(weir_lesson_number(&in, "samples", &count, 0, INT64_MAX));
    WEIR_TRY(weir_lesson_hash(&in, "hash", &part->hash));
    part->count = (uint64_t)count;
    if (!l->reading)
        weir_json_put(l->to, name, in.to);
    return WEIR_OK;
}

static weir_err list_all(const weir_data_use *use, weir_lesson *l,
                         struct weir_data_trained trained[WEIR_DATA_PARTS])
{
    for (int part = 0; part < WEIR_DATA_PARTS; part++)
        WEIR_TRY(list_part(l, part_name[part], &trained[part]));
    return use->data->lessons ? use->data->lessons(use->self, l) : WEIR_OK;
}

static weir_lesson lesson_of(const weir_data_use *use, weir_arena *a)
{
    return (
        weir_lesson){.kind = &use->data->plug, .self = use->self, .spec = use->spec, .arena = a};
}

/* ---- writing ---- */

static weir_err keep_text(const char *kind, char *text, weir_arena *a, const char **kept)
{
    size_t n = strlen(text);

    if (n > MOST_TEXT)
        return weir_fail(WEIR_MISFIT,
                         "data %s: what the training part taught takes %zu MiB, and a checkpoint "
                         "holds %d at most: take a smaller vocabulary",
                         kind, n >> 20, MOST_TEXT >> 20);
    return (*kept = weir_copy_text(a, text)) ? WEIR_OK : weir_fail_nomem(n);
}

weir_err weir_data_lessons(weir_data_use *use, weir_arena *a, const char **kept)
{
    weir_lesson l = lesson_of(use, a);
    struct weir_data_trained trained[WEIR_DATA_PARTS];
    char *text = NULL;
    weir_err err;

    for (int part = 0; part < WEIR_DATA_PARTS; part++)
        trained[part] = (struct weir_data_trained){use->facts.count[part],
                                                   weir_data_hash(use, (weir_data_part)part)};
    l.to = weir_json_object();
    weir_json_put_int(l.to, "version", VERSION);
    weir_json_put_text(l.to, "kind", use->data->plug.name);
    err = list_all(use, &l, trained);
    if (!err && !(text = weir_json_text_exact(l.to)))
        err = weir_fail_nomem(0);
    if (!err)
        err = keep_text(use->data->plug.name, text, a, kept);
    free(text);
    weir_json_free(l.to);
    return err;
}

/* ---- reading ---- */

static weir_err read_all(weir_data_use *use, weir_lesson *l)
{
    int64_t version;
    const char *kind;

    if (!weir_json_get_int(l->from, "version", &version) ||
        !weir_json_get_text(l->from, "kind", &kind))
        return weir_lesson_damaged("'version' or 'kind' is missing");
    if (version != VERSION)
        return weir_fail(WEIR_MISFIT,
                         "what the run's data taught it is written in version %lld; %d was "
                         "expected: another version of weir saved it",
                         (long long)version, VERSION);
    if (strcmp(kind, use->data->plug.name))
        return weir_fail(WEIR_MISFIT,
                         "data %s: the run was trained on data of the kind '%.40s', and what that "
                         "taught it says nothing of others",
                         use->data->plug.name, kind);
    return list_all(use, l, use->trained);
}

weir_err weir_data_learn(weir_data_use *use, const char *text, weir_arena *a)
{
    weir_lesson l = lesson_of(use, a);
    weir_json *json;
    weir_err err;

    if (weir_json_parse(text, strlen(text), "it", &json))
        return weir_lesson_damaged("%.300s", weir_why_text());
    l.reading = true;
    l.from = json;
    err = read_all(use, &l);
    weir_json_free(json);
    return err;
}
