/* fibre.h - a stack and a switch. A fibre never changes its thread. Known to ASan and TSan. */
#ifndef WEIR_CORE_FIBRE_H
#define WEIR_CORE_FIBRE_H
#include "core/err.h"

typedef struct weir_fibre weir_fibre;
/* A fibre that will run fn(arg) on a stack of its own, with a guard page. fn must not return: it
 * ends with weir_fibre_leave. */
weir_err weir_fibre_new(size_t stack, void (*fn)(void *), void *arg, weir_fibre **);
/* The calling thread itself, as something to switch back to. */
weir_err weir_fibre_thread(weir_fibre **);
void weir_fibre_switch(weir_fibre *from, weir_fibre *to);
/* The last switch of a fibre that has ended. */
void weir_fibre_leave(weir_fibre *from, weir_fibre *to) __attribute__((noreturn));
void weir_fibre_free(weir_fibre *); /* of one that has left or never ran */
#endif
