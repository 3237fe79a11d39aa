/* fibre.c - a stack and a switch: a dozen lines of assembler where we have them, ucontext
 * elsewhere. */
#include "core/fibre.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

/* What the sanitizers want to know. Without them these lines are empty. */
#ifdef __SANITIZE_ADDRESS__
void __sanitizer_start_switch_fiber(void **fake, const void *stack, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **stack, size_t *size);
#else
#define __sanitizer_start_switch_fiber(fake, stack, size) \
    ((void)(fake), (void)(stack), (void)(size))
#define __sanitizer_finish_switch_fiber(fake, stack, size) ((void)(fake))
#endif
#ifdef __SANITIZE_THREAD__
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fibre);
void __tsan_switch_to_fiber(void *fibre, unsigned flags);
#else
#define __tsan_get_current_fiber() NULL
#define __tsan_create_fiber(flags) NULL
#define __tsan_destroy_fiber(fibre) ((void)(fibre))
#define __tsan_switch_to_fiber(fibre, flags) ((void)(fibre))
#endif

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(WEIR_UCONTEXT)
#define ASSEMBLER 1
#else
#include <ucontext.h>
#endif

struct weir_fibre {
    void *sp; /* while it does not run: where its registers lie */
    char *stack;
    size_t size, guard;
    bool thread; /* the stack is the thread's own */
    void (*fn)(void *);
    void *arg;
    void *fake, *tsan;
#ifndef ASSEMBLER
    ucontext_t context;
#endif
};

/* Where a new fibre begins. */
__attribute__((used)) static void enter(weir_fibre *f)
{
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
    f->fn(f->arg);
    abort(); /* fn has returned, which its contract forbids: there is no frame to go back to */
}

#ifdef ASSEMBLER
/* weir_fibre_jump(&from->sp, to->sp): saves what a called function must keep, changes the stack,
 * takes it back. weir_fibre_begin: the first return address of a new fibre, with the fibre in a
 * register that a jump restores. */
void weir_fibre_jump(void **save, void *load) __attribute__((visibility("hidden")));
void weir_fibre_begin(void) __attribute__((visibility("hidden")));

#ifdef __x86_64__
__asm__(".pushsection .text\n"
        ".globl weir_fibre_jump\n.hidden weir_fibre_jump\n.type weir_fibre_jump,@function\n"
        "weir_fibre_jump:\n"
        "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "sub $8,%rsp\n stmxcsr (%rsp)\n fnstcw 4(%rsp)\n"
        "mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
        "ldmxcsr (%rsp)\n fldcw 4(%rsp)\n add $8,%rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
        ".size weir_fibre_jump,.-weir_fibre_jump\n"
        ".globl weir_fibre_begin\n.hidden weir_fibre_begin\n.type weir_fibre_begin,@function\n"
        "weir_fibre_begin:\n"
        "mov %r12,%rdi\n call *%r13\n ud2\n"
        ".size weir_fibre_begin,.-weir_fibre_begin\n"
        ".popsection\n");

static void lay_out(weir_fibre *f)
{
    /* 8 registers, the return address, one for alignment */
    uint64_t *top = (uint64_t *)(f->stack + f->size) - 10;

    memset(top, 0, 10 * sizeof *top);
    top[0] = 0x037f00001f80u; /* the x87 and SSE control words every program starts with */
    top[3] = (uint64_t)enter; /* r13 */
    top[4] = (uint64_t)f;     /* r12 */
    top[7] = (uint64_t)weir_fibre_begin;
    f->sp = top;
}
#else
__asm__(".pushsection .text\n"
        ".globl weir_fibre_jump\n.hidden weir_fibre_jump\n.type weir_fibre_jump,@function\n"
        "weir_fibre_jump:\n"
        "sub sp,sp,#176\n"
        "stp x19,x20,[sp]\n stp x21,x22,[sp,#16]\n stp x23,x24,[sp,#32]\n stp x25,x26,[sp,#48]\n "
        "stp x27,x28,[sp,#64]\n"
        "stp x29,x30,[sp,#80]\n stp d8,d9,[sp,#96]\n stp d10,d11,[sp,#112]\n stp "
        "d12,d13,[sp,#128]\n stp d14,d15,[sp,#144]\n"
        "mrs x9,fpcr\n str x9,[sp,#160]\n"
        "mov x9,sp\n str x9,[x0]\n mov sp,x1\n"
        "ldr x9,[sp,#160]\n msr fpcr,x9\n"
        "ldp x19,x20,[sp]\n ldp x21,x22,[sp,#16]\n ldp x23,x24,[sp,#32]\n ldp x25,x26,[sp,#48]\n "
        "ldp x27,x28,[sp,#64]\n"
        "ldp x29,x30,[sp,#80]\n ldp d8,d9,[sp,#96]\n ldp d10,d11,[sp,#112]\n ldp "
        "d12,d13,[sp,#128]\n ldp d14,d15,[sp,#144]\n"
        "add sp,sp,#176\n ret\n"
        ".size weir_fibre_jump,.-weir_fibre_jump\n"
        ".globl weir_fibre_begin\n.hidden weir_fibre_begin\n.type weir_fibre_begin,@function\n"
        "weir_fibre_begin:\n"
        "mov x0,x19\n blr x20\n brk #1\n"
        ".size weir_fibre_begin,.-weir_fibre_begin\n"
        ".popsection\n");

static void lay_out(weir_fibre *f)
{
    uint64_t *top = (uint64_t *)(f->stack + f->size) - 22;

    memset(top, 0, 22 * sizeof *top);
    top[0] = (uint64_t)f;                 /* x19 */
    top[1] = (uint64_t)enter;             /* x20 */
    top[11] = (uint64_t)weir_fibre_begin; /* x30 */
    f->sp = top;
}
#endif
static void jump(weir_fibre *from, weir_fibre *to) { weir_fibre_jump(&from->sp, to->sp); }
#else
static void enter_split(unsigned high, unsigned low) /* makecontext passes ints only */
{
    enter((weir_fibre *)(uintptr_t)((uint64_t)high << 32 | low));
}

static void lay_out(weir_fibre *f)
{
    uint64_t at = (uintptr_t)f;

    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = f->size;
    f->context.uc_link = NULL;
    makecontext(&f->context, (void (*)(void))enter_split, 2, (unsigned)(at >> 32), (unsigned)at);
}
static void jump(weir_fibre *from, weir_fibre *to) { swapcontext(&from->context, &to->context); }
#endif

weir_err weir_fibre_new(size_t stack, void (*fn)(void *), void *arg, weir_fibre **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (stack + page - 1) / page * page;
    weir_fibre *f = calloc(1, sizeof *f);
    char *at;

    if (!f)
        return weir_fail_nomem(sizeof *f);
    at = mmap(NULL, size + page, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (at == MAP_FAILED) {
        free(f);
        return weir_fail_nomem(size + page);
    }
    if (mprotect(at, page, PROT_NONE)) { /* one more mapping than the system allows */
        munmap(at, size + page);
        free(f);
        return weir_fail(WEIR_FAILED, "no guard page for a fibre's stack: raise vm.max_map_count");
    }
    *f = (weir_fibre){.stack = at + page, .size = size, .guard = page, .fn = fn, .arg = arg};
    f->tsan = __tsan_create_fiber(0);
    lay_out(f);
    *out = f;
    return WEIR_OK;
}

weir_err weir_fibre_thread(weir_fibre **out)
{
    weir_fibre *f = calloc(1, sizeof *f);
    pthread_attr_t attr;
    void *low = NULL;

    if (!f)
        return weir_fail_nomem(sizeof *f);
    f->thread = true;
    if (!pthread_getattr_np(pthread_self(), &attr)) { /* ASan asks where the stack lies */
        pthread_attr_getstack(&attr, &low, &f->size);
        pthread_attr_destroy(&attr);
    }
    f->stack = low;
    f->tsan = __tsan_get_current_fiber();
    *out = f;
    return WEIR_OK;
}

void weir_fibre_switch(weir_fibre *from, weir_fibre *to)
{
    __sanitizer_start_switch_fiber(&from->fake, to->stack, to->size);
    __tsan_switch_to_fiber(to->tsan, 0);
    jump(from, to);
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
}

void weir_fibre_leave(weir_fibre *from, weir_fibre *to)
{
    __sanitizer_start_switch_fiber(NULL, to->stack, to->size);
    __tsan_switch_to_fiber(to->tsan, 0);
    jump(from, to);
    abort(); /* nobody switches to a fibre that has left */
}

void weir_fibre_free(weir_fibre *f)
{
    if (!f)
        return;
    if (!f->thread) {
        __tsan_destroy_fiber(f->tsan);
        munmap(f->stack - f->guard, f->size + f->guard);
    }
    free(f);
}
