/* err.h - errors with context.
 *
 * Who detects an error writes its sentence, once, with weir_fail; everybody above only passes the
 * code on (WEIR_TRY), or puts a few words in front with weir_fail_in. Outputs are set only on
 * success; unwinding runs in reverse. The sentence lives in a slot of the running task: a thread
 * has one of its own, a scheduler of fibres swaps them. */
#ifndef WEIR_CORE_ERR_H
#define WEIR_CORE_ERR_H
#include "weir.h"

#define WEIR_WHY_MAX 1024
typedef struct weir_why {
    weir_err code;
    char text[WEIR_WHY_MAX];
} weir_why;

#define WEIR_TRY(call)          \
    do {                        \
        weir_err try_ = (call); \
        if (try_)               \
            return try_;        \
    } while (0)

/* Writes the sentence and returns `code`, so that `return weir_fail(...)` reads well. */
weir_err weir_fail(weir_err code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "words: " in front of the sentence that is there. Returns `code` unchanged. */
weir_err weir_fail_in(weir_err code, const char *format, ...) __attribute__((format(printf, 2, 3)));
weir_err weir_fail_nomem(size_t bytes); /* 0: nobody knows how many */
/* The sentence of the last failure in this task; "" if there was none. */
const char *weir_why_text(void);
/* Makes `slot` the running task's slot and returns the one before. NULL: the thread's own. */
weir_why *weir_why_use(weir_why *slot);
/* A short name of a code: "peer lost". */
const char *weir_err_name(weir_err code);
/* The code a process leaves with. */
int weir_err_exit(weir_err code);
#endif
