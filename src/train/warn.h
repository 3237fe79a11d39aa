/* warn.h - what is known to cost accuracy, said before the first step. Settings stay as they
 * are. */
#ifndef WEIR_TRAIN_WARN_H
#define WEIR_TRAIN_WARN_H
#include "codec/codec.h"
#include "optim/optim.h"

/* What is to be said once there is somebody to say it to. A run that goes on has nine things to say
 * at most (of its lock, model file, data, both parts and their words, progress and rate); of more
 * than fit the last text tells how many they were. */
enum { WEIR_WARNED = 12 };
typedef struct weir_warned {
    int n, more; /* more: that did not fit */
    char text[WEIR_WARNED + 1][WEIR_WHY_MAX];
} weir_warned;
void weir_warned_add(weir_warned *, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum { WEIR_WARN_MOST = 3 };
/* What the settings come to. */
typedef struct weir_warn_facts {
    const weir_codec *codec;
    const weir_feedback *feedback; /* NULL: floats as they are */
    const weir_optim *optim;
    const char *spec, *lr; /* as the user wrote them: the codec is this, or one to choose from */
    double steps, epoch_steps; /* of the whole run; of an epoch */
} weir_warn_facts;
/* A sentence for each, by what codec and optimiser declare of themselves, and by how long the run
 * is; how many there are. */
int weir_warn_all(const weir_warn_facts *, char (*text)[WEIR_WHY_MAX]);

/* A field of a checkpoint that nobody asked for: what codecs held back, and the momentum before
 * them, are part of the gradient, and nobody may go on without. */
weir_err weir_warn_never_lost(const char *name);
/* Settings that do not fit a checkpoint: says which codec it was saved with. Other errors stay as
 * they are. */
weir_err weir_warn_saved_with(weir_err, const char *settings);
#endif
