/* run_model.h - the model's text belongs to the run: OUT/model.net is a copy of the file that it
 * began with, and who resumes or evaluates the run reads that. So the file that --model named may
 * be edited, moved or deleted. Runs of an older weir have no copy: their file is read. */
#ifndef WEIR_TRAIN_RUN_MODEL_H
#define WEIR_TRAIN_RUN_MODEL_H
#include "train/trainer.h"

/* The copy in a run directory; NULL: it has none, or it is not the directory of a run. */
weir_err weir_run_model_find(const char *dir, weir_arena *, const char **path);
/* Reads the trainer's model file, once: the copy that its settings name, else the model's own. A
 * copy that its file has come to differ from is warned of. */
weir_err weir_run_model_read(weir_trainer *);
/* Writes it into the run directory. One of other content that no run can have put there is the
 * user's: refused. */
weir_err weir_run_model_write(const weir_model_file *, const char *out);
#endif
