/* stop.h - a wish that the run should stop: where it is heard, and how all ranks come to know.
 *
 * A step carries it among its notes (notes.h). An evaluation has no messages until its end, and may
 * take long: a rank that is told to stop breaks off and shows the phase `stop`, which the others
 * see with its next sign of life and break off too; then all agree. */
#ifndef WEIR_TRAIN_STOP_H
#define WEIR_TRAIN_STOP_H
#include "train/trainer.h"

/* The signal by which this rank was told to stop, with others or alone; 0: it was not. */
int weir_stop_here(const weir_trainer *);
/* This rank was told to stop, or has heard of one that was. Costs next to nothing. */
bool weir_stop_told(weir_trainer *);
/* All ranks at the same place, told or not: t->stopped is the signal if all of them stop for it,
 * the same on all; or t->change, where some have broken off what they were at to leave alone. One
 * message. */
weir_err weir_stop_agree(weir_trainer *, bool broken);
#endif
