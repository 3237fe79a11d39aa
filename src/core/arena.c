/* arena.c - a list of blocks; small things share one, large things get a mapping of their own. */
#include "core/arena.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum {
    ALONE = 1,
    HUGE = 1 << 30
}; /* every thing gets a block of its own, of its own size: ASan then sees each step outside */
#else
enum { ALONE = 0, HUGE = 2 << 20 };
#endif
enum { SMALL_BLOCK = 64 << 10, PAGE = 2 << 20, SMALL_PAGE = 4096, ALIGN = 64 };

typedef struct block {
    struct block *next;
    size_t size, used;
    bool mapped;
} block;

typedef struct later { /* lies in the arena itself */
    struct later *next;
    void (*fn)(void *);
    void *arg;
} later;

struct weir_arena {
    block *open; /* the first block takes new small things */
    later *last;
    size_t bytes;
};

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

weir_arena *weir_arena_new(void) { return calloc(1, sizeof(weir_arena)); }

static block *new_block(size_t size)
{
    block *b;

    if (size >= HUGE) {
        size = round_up(size, PAGE);
        b = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (b == MAP_FAILED)
            return NULL;
        madvise(b, size, MADV_HUGEPAGE); /* advice only: no harm where it is refused */
        b->mapped = true;
    } else {
        void *fresh;
        if (posix_memalign(&fresh, ALIGN, size))
            return NULL;
        b = memset(fresh, 0, size);
    }
    b->size = size;
    b->used = round_up(sizeof *b, ALIGN);
    return b;
}

void *weir_alloc(weir_arena *a, size_t bytes)
{
    size_t head = round_up(sizeof(block), ALIGN), need;
    block *b = a->open;

    if (bytes > SIZE_MAX / 2)
        return NULL;
    need = ALONE ? bytes : round_up(bytes ? bytes : 1, ALIGN);
    if (ALONE || !b || b->size - b->used < need) {
        bool large = ALONE || need + head > SMALL_BLOCK;
        if (!(b = new_block(large ? need + head : SMALL_BLOCK)))
            return NULL;
        if (large && a->open) { /* full from the start: behind the block that still has room */
            b->next = a->open->next;
            a->open->next = b;
        } else {
            b->next = a->open;
            a->open = b;
        }
    }
    b->used += need;
    a->bytes += need;
    return (char *)b + b->used - need;
}

void *weir_alloc_many(weir_arena *a, size_t n, size_t size)
{
    size_t bytes;

    return __builtin_mul_overflow(n, size, &bytes) ? NULL : weir_alloc(a, bytes);
}

void *weir_alloc_beside(weir_arena *a, size_t bytes, const void *other)
{
    char *at;

    if (ALONE || bytes < SMALL_PAGE)
        return weir_alloc(a, bytes);
    if (bytes > SIZE_MAX / 2 || !(at = weir_alloc(a, bytes + SMALL_PAGE)))
        return NULL;
    return at + ((uintptr_t)other - (uintptr_t)at) % SMALL_PAGE;
}

char *weir_copy_text(weir_arena *a, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = weir_alloc(a, n);

    return copy ? memcpy(copy, text, n) : NULL;
}

size_t weir_arena_bytes(const weir_arena *a) { return a->bytes; }

bool weir_arena_later(weir_arena *a, void (*fn)(void *), void *arg)
{
    later *l = weir_alloc(a, sizeof *l);

    if (!l)
        return false;
    *l = (later){a->last, fn, arg};
    a->last = l;
    return true;
}

void weir_arena_free(weir_arena *a)
{
    for (later *l = a ? a->last : NULL; l; l = l->next)
        l->fn(l->arg);
    for (block *b = a ? a->open : NULL, *next; b; b = next) {
        next = b->next;
        if (b->mapped)
            munmap(b, b->size);
        else
            free(b);
    }
    free(a);
}
