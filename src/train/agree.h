/* agree.h - do all ranks run the same thing? Asked at the start of their settings and of all that
 * they have read, and every so many steps of their parameters.
 *
 * All verbs are collective and run on the comm task. What they find out they say alike on every
 * rank, so that whoever is read first has the whole story. */
#ifndef WEIR_TRAIN_AGREE_H
#define WEIR_TRAIN_AGREE_H
#include "coll/coll.h"
#include "train/settings.h"

/* Settings that must be the same on all ranks: WEIR_MISFIT names the first that is not, with both
 * values and a rank. `more`: further lines "key value" that must agree, such as what the data
 * turned out to hold. Files may lie in different directories. Uses a collective of its own: the one
 * asked for may be what differs. [blocks] */
weir_err weir_agree_settings(weir_group *, const weir_settings *, const char *more, weir_arena *);

/* What was read from files and must be the same on all ranks, by a hash of its content. */
typedef struct weir_content {
    const char *name; /* "training part" */
    uint64_t hash;
} weir_content;
/* WEIR_MISFIT names the first that is not, and the rank that stands alone with it, or (of two
 * camps, or many) two that differ. All ranks list the same things. Costs eight bytes a thing and
 * rank. [blocks] */
weir_err weir_agree_contents(weir_group *, const weir_content *, int n, weir_arena *);

/* Parameters that must be bitwise equal: WEIR_DIVERGED names the step, the first tensor that is
 * not, and the rank that stands alone with its values, or two that differ. Costs a hash of the
 * parameters and eight bytes a rank. [blocks] */
typedef struct weir_replica {
    weir_coll_use *coll;
    weir_group *group;
    const weir_tensor *tensor;
    int tensors;
    const float *param;
    uint64_t step;  /* for the sentence */
    uint64_t *hash; /* of each tensor, here; made by weir_replica_open */
    uint64_t *all;  /* of everybody's parameters */
    size_t *off, *len;
} weir_replica;
/* the first four fields are filled in; makes room, so that checks make none */
weir_err weir_replica_open(weir_replica *, weir_arena *);
weir_err weir_replica_check(weir_replica *);
#endif
