/* warn.h - what is known to cost accuracy, said before the first step. Settings stay as they are. */
#ifndef WEIR_TRAIN_WARN_H
#define WEIR_TRAIN_WARN_H
#include "codec/codec.h"
#include "optim/optim.h"

enum { WEIR_WARNINGS = 2 };
/* A sentence for each, by what codec and optimiser declare of themselves; how many there are. */
int weir_warnings(const weir_codec *, const weir_optim *, const char *lr, char (*text)[WEIR_WHY_MAX]);
#endif
