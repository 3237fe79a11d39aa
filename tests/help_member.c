/* help_member.c */
#include "help_member.h"

weir_exchange_env member_env(member *m)
{
    return (weir_exchange_env){.same = m->mesh.same,
                               .all = &m->mesh.all,
                               .coll = &m->coll,
                               .lane = m->lane,
                               .lanes = m->lanes,
                               .arena = m->life,
                               .group_arena = m->mesh.arena,
                               .seed = 7};
}

weir_err member_make(member *m, member_specs s)
{
    const weir_plug *plug;

    m->t[0] = (weir_tensor){"u", 0, 2000, 2, {20, 100}, true, 0};
    m->t[1] = (weir_tensor){"w", 2000, 1000, 2, {10, 100}, true, 1};
    m->t[2] = (weir_tensor){"b", 3000, 100, 1, {100}, false, 1};
    WEIR_TRY(weir_buckets_cut(&(weir_flat){m->t, 3, m->param, m->grad},
                              &(weir_cut_rules){.bytes = 4096, .small = WEIR_SMALL}, m->life,
                              &m->bucket, &m->lanes));
    WEIR_TRY(weir_lanes_make(m->bucket, m->lanes, s.codec, s.optim, m->life, &m->lane));
    m->lane[m->lanes - 1].notes = WEIR_EXCHANGE_NOTES;
    WEIR_TRY(weir_plug_find(weir_exchanges, "exchange", s.exchange, &plug));
    m->x = (const weir_exchange *)plug;
    return weir_plug_make(plug, "exchange", s.exchange, m->life, &m->self);
}
