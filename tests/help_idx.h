/* help_idx.h - a directory of its own for each test, and IDX files to put there. */
#ifndef HELP_IDX_H
#define HELP_IDX_H
#include "core/arena.h"
#include "data/data.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

typedef struct idx_bytes {
    unsigned char b[4096];
    size_t n;
} idx_bytes;

extern char idx_dir[64];
extern weir_arena *idx_arena;
int idx_setup(void **);
int idx_teardown(void **);

/* Values are bits: for floats those of the float. */
idx_bytes idx_array(int type, int dims, const uint32_t *dim, const uint32_t *value, size_t n);
void idx_write(const char *name, const idx_bytes *);
void idx_save(const char *name, int type, int dims, const uint32_t *dim, const uint32_t *value,
              size_t n);
/* 4 training and 2 test pictures of 2x3 bytes, classes 0 2 1 3 and 2 1; the test pictures are the
 * last training ones. */
void idx_good(void);
extern uint32_t idx_ramp[24];
/* Any bytes; text. */
void idx_put(const char *name, const void *bytes, size_t n);
void idx_text(const char *name, const char *text);
/* Opens a spec in which %s is the directory; a batch of so many samples. */
weir_err idx_open(const char *format, int64_t batch, weir_data_use *);
/* That this fails with the code, naming the file and saying the words, and gives nothing. */
void idx_refused(const char *format, weir_err code, const char *file, const char *words);
/* Samples first..first + n - 1 of a part, at a step of seed 1. */
weir_data_batch idx_get(const weir_data_use *, weir_data_part, uint64_t first, int n,
                        uint64_t step);
/* Runs a line in which up to two %s are the directory. */
void idx_shell(const char *format);
#endif
