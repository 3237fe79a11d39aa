/* help_shm.c - see help_shm.h. */
#include "help_shm.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>

typedef struct odd {
    float a;
    int32_t b, c;
} odd;
static void add_odd(void *to, const void *from, size_t n)
{
    odd *y = to;
    const odd *x = from;

    for (size_t i = 0; i < n; i++)
        y[i] = (odd){y[i].a + x[i].a, y[i].b + x[i].b, y[i].c ^ x[i].c};
}
static const weir_sum sum_odd = {sizeof(odd), add_odd, NULL};

double shm_fraction(int rank, size_t i)
{
    return 1.0 / (double)(1 + (i * 7 + (size_t)rank * 13) % 97);
}
static void f32_value(void *at, int rank, size_t i) { *(float *)at = (float)shm_fraction(rank, i); }
static void whole_value(void *at, int rank, size_t i)
{
    *(float *)at = (float)((i * 7 + (size_t)rank * 13) % 101) - 50;
}
static void f64_value(void *at, int rank, size_t i) { *(double *)at = shm_fraction(rank, i); }
static void odd_value(void *at, int rank, size_t i)
{
    *(odd *)at = (odd){(float)shm_fraction(rank, i), (int32_t)i * rank, (int32_t)i << rank};
}
const shm_kind shm_kinds[SHM_KINDS] = {{"whole numbers", &weir_sum_f32, whole_value, 101},
                                       {"f32", &weir_sum_f32, f32_value, 97},
                                       {"f64", &weir_sum_f64, f64_value, 97},
                                       {"odd units", &sum_odd, odd_value, 0}};

void shm_fill(const shm_kind *k, char *buf, size_t n, int rank)
{
    for (size_t i = 0; i < n; i++)
        k->value(buf + i * k->sum->unit, rank, i);
}

weir_err shm_check(const shm_kind *k, const char *buf, size_t lo, size_t hi, int ranks,
                   const char *verb, const char *where)
{
    _Alignas(16) char sum[101][16], one[16];
    size_t known = 0;

    for (size_t i = lo; i < hi; i++) {
        char *want = sum[k->period ? i % k->period : 0];
        if (!k->period || known < k->period) {
            k->value(want, 0, i);
            for (int r = 1; r < ranks; r++) {
                k->value(one, r, i);
                k->sum->add(want, one, 1);
            }
            known++;
        }
        if (memcmp(buf + i * k->sum->unit, want, k->sum->unit))
            return weir_fail(WEIR_FAILED, "%s of %s, buffers %s, %d ranks: unit %zu is wrong", verb,
                             k->name, where, ranks, i);
    }
    return WEIR_OK;
}

weir_err room_open(weir_net *net, const char *spec, size_t bytes, weir_arena *a, room *r)
{
    void *in;

    *r = (room){.bytes = bytes, .out = weir_alloc(a, bytes)};
    CHECK(r->out);
    WEIR_TRY(weir_group_all(net, a, &r->g));
    WEIR_TRY(weir_coll_open(spec, &r->g, a, &r->use));
    WEIR_TRY(weir_coll_memory(&r->use, &r->g, bytes, a, &in));
    CHECK((uintptr_t)in % 64 == 0);
    r->in = in;
    for (size_t i = 0; i < bytes; i++)
        CHECK(!r->in[i]);
    return WEIR_OK;
}

int shm_held(const char *what)
{
    char line[4096];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");

    while (f && fgets(line, sizeof line, f))
        n += strstr(line, what) != NULL;
    if (f)
        fclose(f);
    return f ? n : -1;
}

int shm_entries(const char *dir, const char *part)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;

    while (d && (e = readdir(d)))
        n += strstr(e->d_name, part) != NULL;
    if (d)
        closedir(d);
    return n;
}
