/* groups.h - what of a trainer belongs to a generation of groups: the collective, the memory in
 * which gradients are summed, its part of the samples, the exchange's side of it. Made when the
 * trainer opens, and anew when other members go on. What it changes it changes between steps, while
 * the lines are clear. */
#ifndef WEIR_TRAIN_GROUPS_H
#define WEIR_TRAIN_GROUPS_H
#include "net/member_message.h"
#include "train/trainer.h"

/* The first generation: the collective and the memory of gradients, before lanes are made of it;
 * then, with the lanes, the exchange. */
weir_err weir_groups_open(weir_trainer *);
weir_err weir_groups_enter(weir_trainer *);
/* The exchange's lanes see the memory that there is now. */
void weir_groups_point_lanes(weir_trainer *);
/* Lets go of this generation, and makes the next of these members, this rank among them. Carried
 * state of streams begins at zero (state_share.h brings it along). */
weir_err weir_groups_renew(weir_trainer *, const weir_members *);
/* Nothing of a generation is left. */
void weir_groups_close(weir_trainer *);
#endif
