/* arena.h - memory for set-up: zeroed, 64-byte aligned, given back all at once.
 * Blocks of 2 MiB and more are mapped on their own and advised to use huge pages. Not for two
 * threads at a time. */
#ifndef WEIR_CORE_ARENA_H
#define WEIR_CORE_ARENA_H
#include <stdbool.h>
#include <stddef.h>

typedef struct weir_arena weir_arena;

weir_arena *weir_arena_new(void);
void weir_arena_free(weir_arena *); /* NULL is allowed */
/* NULL when memory is out; the caller says weir_fail_nomem. A size of 0 gives a valid pointer. */
void *weir_alloc(weir_arena *, size_t bytes);
/* The same for n things of `size` bytes; NULL also when the product is too large. */
void *weir_alloc_many(weir_arena *, size_t n, size_t size);
/* The same, on its page where `other` is on its own (64-byte aligned only if that is). A loop that
 * reads the one and writes the other in step needs it: where a write is up to some hundred bytes
 * ahead of the next reads on another page, these wait until it is done, as the core first compares
 * addresses within a page only. Past the caches that takes ten times as long as the reading. */
void *weir_alloc_beside(weir_arena *, size_t bytes, const void *other);
char *weir_copy_text(weir_arena *, const char *text);
/* fn(arg) is called when the arena is freed, before any of its memory goes, the latest first: for
 * what is held besides memory. false when memory is out; fn will not be called then. */
bool weir_arena_later(weir_arena *, void (*fn)(void *), void *arg);
size_t weir_arena_bytes(const weir_arena *); /* handed out so far */

/* `n` things of type T, zeroed */
#define WEIR_NEW(arena, T, n) ((T *)weir_alloc_many((arena), (size_t)(n), sizeof(T)))
#endif
