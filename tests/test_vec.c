/* Every variant of every kernel: the same bits as the others, for any length and alignment, and the
 * values a plain loop gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/bucket.h"
#include "core/rng.h"
#include "core/vec.h"

enum { LONGEST = 65537, ROOM = LONGEST + 16 };

enum { OUT = 3 };
/* outputs begin as y, m and s: s is never negative */
static float *x, *begin[OUT], *first[OUT], *got[OUT];
static double *xd, *yd, *first_d, *got_d;

/* normal numbers of many sizes, small enough that nothing overflows */
static void fill(float *to, uint32_t stream)
{
    weir_rng r = weir_rng_at(7, WEIR_RNG_TEST, 1, stream);

    for (size_t i = 0; i < ROOM; i++)
        to[i] = ldexpf(weir_rng_normal(&r), (int)weir_rng_below(&r, 40) - 20);
}

static int setup(void **state)
{
    (void)state;
    fill(x = malloc(ROOM * sizeof *x), 1);
    for (int i = 0; i < OUT; i++) {
        first[i] = malloc(ROOM * sizeof(float)), got[i] = malloc(ROOM * sizeof(float));
        fill(begin[i] = malloc(ROOM * sizeof(float)), 2 + (uint32_t)i);
    }
    xd = malloc(ROOM * sizeof *xd), yd = malloc(ROOM * sizeof *yd);
    first_d = malloc(ROOM * sizeof *xd), got_d = malloc(ROOM * sizeof *xd);
    for (size_t i = 0; i < ROOM; i++) {
        begin[2][i] = fabsf(begin[2][i]);
        xd[i] = (double)x[i] * 1.000000001, yd[i] = begin[0][i] / 3.0;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(x), free(xd), free(yd), free(first_d), free(got_d);
    for (int i = 0; i < OUT; i++)
        free(begin[i]), free(first[i]), free(got[i]);
    return 0;
}

/* One kernel on out[0], out[1] and out[2], all `shift` floats off their alignment. */
typedef void (*kernel)(const weir_vec *, float *const *out, const float *x, size_t n);
typedef void (*formula)(float *w, float *m, float *s, float x); /* the same for one element */

static const weir_vec_adam adam = {.take1 = 0.1f,
                                   .beta2 = 0.99f,
                                   .take2 = 0.01f,
                                   .root = 1.3f,
                                   .eps = 1e-8f,
                                   .rate = 0.05f,
                                   .keep = 0.999f,
                                   .decay = 1e-3f,
                                   .scale = 0.25f};

static void run_add(const weir_vec *v, float *const *o, const float *g, size_t n)
{
    v->add(o[0], g, n);
}
static void run_scale(const weir_vec *v, float *const *o, const float *g, size_t n)
{
    (void)g, v->scale(o[0], 0.3f, n);
}
static void run_axpy(const weir_vec *v, float *const *o, const float *g, size_t n)
{
    v->axpy(o[0], -1.7f, g, n);
}
static void run_sgd(const weir_vec *v, float *const *o, const float *g, size_t n)
{
    v->sgd(o[0], o[1], g, n, &(weir_vec_sgd){0.1f, 0.9f, 1e-4f, 0.25f, false});
}
static void run_nesterov(const weir_vec *v, float *const *o, const float *g, size_t n)
{
    v->sgd(o[0], o[1], g, n, &(weir_vec_sgd){0.1f, 0.9f, 1e-4f, 0.25f, true});
}
static void run_plain(const weir_vec *v, float *const *o, const float *g, size_t n)
{
    v->sgd_plain(o[0], g, n, 0.1f, 1e-4f, 0.25f);
}
static void run_adagrad(const weir_vec *v, float *const *o, const float *g, size_t n)
{
    v->adagrad(o[0], o[2], g, n, &(weir_vec_adagrad){0.1f, 1e-4f, 1e-10f, 0.25f});
}
static void run_adam(const weir_vec *v, float *const *o, const float *g, size_t n)
{
    v->adam(o[0], o[1], o[2], g, n, &adam);
}

/* volatile keeps every rounding where the header's formula has it, whatever the compiler likes */
static float times(float a, float b)
{
    volatile float c = a * b;
    return c;
}
static float plus(float a, float b)
{
    volatile float c = a + b;
    return c;
}
/* through double, whose 53 bits are enough for both to be rounded correctly to 24 */
static float over(float a, float b)
{
    volatile double c = (double)a / (double)b;
    return (float)c;
}
static float root(float a)
{
    volatile double c = sqrt((double)a);
    return (float)c;
}
static void one_add(float *w, float *v, float *s, float g) { (void)v, (void)s, *w = plus(*w, g); }
static void one_scale(float *w, float *v, float *s, float g)
{
    (void)v, (void)s, (void)g, *w = times(*w, 0.3f);
}
static void one_axpy(float *w, float *v, float *s, float g)
{
    (void)v, (void)s, *w = plus(*w, times(-1.7f, g));
}
static float decayed(float w, float g, float decay)
{
    return plus(times(g, 0.25f), times(decay, w));
}
static void one_sgd(float *w, float *v, float *s, float g)
{
    (void)s;
    *v = plus(times(0.9f, *v), decayed(*w, g, 1e-4f));
    *w = plus(*w, -times(0.1f, *v));
}
static void one_nesterov(float *w, float *v, float *s, float g)
{
    float d = decayed(*w, g, 1e-4f);

    (void)s;
    *v = plus(times(0.9f, *v), d);
    *w = plus(*w, -times(0.1f, plus(d, times(0.9f, *v))));
}
static void one_plain(float *w, float *v, float *s, float g)
{
    (void)v, (void)s, *w = plus(*w, -times(0.1f, decayed(*w, g, 1e-4f)));
}
static void one_adagrad(float *w, float *v, float *s, float g)
{
    float d = decayed(*w, g, 1e-4f);

    (void)v;
    *s = plus(*s, times(d, d));
    *w = plus(*w, -times(0.1f, over(d, plus(root(*s), 1e-10f))));
}
static void one_adam(float *w, float *m, float *v, float g)
{
    float d = decayed(*w, g, adam.decay);

    *m = plus(*m, times(adam.take1, plus(d, -*m)));
    *v = plus(times(adam.beta2, *v), times(times(adam.take2, d), d));
    *w = plus(times(adam.keep, *w),
              -times(adam.rate, over(*m, plus(times(root(*v), adam.root), adam.eps))));
}

static const struct {
    const char *name;
    kernel run;
    formula one;
} kernels[] = {{"add", run_add, one_add},
               {"scale", run_scale, one_scale},
               {"axpy", run_axpy, one_axpy},
               {"sgd", run_sgd, one_sgd},
               {"nesterov", run_nesterov, one_nesterov},
               {"sgd_plain", run_plain, one_plain},
               {"adam", run_adam, one_adam},
               {"adagrad", run_adagrad, one_adagrad}};

/* 0..67, 1000, 65537; -1 ends */
static long length(int i) { return i <= 67 ? i : i == 68 ? 1000 : i == 69 ? LONGEST : -1; }

/* NaNs agree in being NaNs */
static bool same(const float *a, const float *b)
{
    if (!memcmp(a, b, ROOM * sizeof *a))
        return true;
    for (size_t i = 0; i < ROOM; i++)
        if (memcmp(a + i, b + i, sizeof *a) && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static void check_one(const weir_vec *v, size_t k, size_t n, size_t shift)
{
    for (int o = 0; o < OUT; o++) {
        memcpy(got[o], begin[o], ROOM * sizeof(float));
        memcpy(first[o], begin[o], ROOM * sizeof(float));
    }
    for (size_t i = 0; i < n; i++)
        kernels[k].one(first[0] + shift + i, first[1] + shift + i, first[2] + shift + i,
                       x[2 * shift + i]);
    kernels[k].run(v, (float *const[]){got[0] + shift, got[1] + shift, got[2] + shift},
                   x + 2 * shift, n);
    for (int o = 0; o < OUT; o++) /* with what lies around it */
        if (!same(got[o], first[o]))
            fail_msg("%s of %s: wrong for n = %zu, %zu floats off", kernels[k].name, v->isa, n,
                     shift);
}

static void every_element_has_the_formulas_bits(void **state)
{
    (void)state;
    for (const weir_vec *const *v = weir_vec_all(); *v; v++)
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
            for (int i = 0; length(i) >= 0; i++)
                for (size_t shift = 0; shift < 6; shift++)
                    check_one(*v, k, (size_t)length(i), shift);
}

static void add_f64_has_the_formulas_bits(void **state)
{
    (void)state;
    for (const weir_vec *const *v = weir_vec_all(); *v; v++)
        for (int i = 0; length(i) >= 0; i++)
            for (size_t shift = 0; shift < 4; shift++) {
                memcpy(got_d, yd, ROOM * sizeof *yd);
                memcpy(first_d, yd, ROOM * sizeof *yd);
                for (size_t j = 0; j < (size_t)length(i); j++)
                    first_d[shift + j] += xd[2 * shift + j];
                (*v)->add_f64(got_d + shift, xd + 2 * shift, (size_t)length(i));
                assert_memory_equal(got_d, first_d, ROOM * sizeof *yd);
            }
}

static void floats_and_doubles_become_each_other(void **state)
{
    (void)state;
    for (const weir_vec *const *v = weir_vec_all(); *v; v++)
        for (int i = 0; length(i) >= 0; i++)
            for (size_t shift = 0; shift < 4; shift++) {
                memcpy(got_d, yd, ROOM * sizeof *yd);
                memcpy(first_d, yd, ROOM * sizeof *yd);
                memcpy(got[0], begin[0], ROOM * sizeof(float));
                memcpy(first[0], begin[0], ROOM * sizeof(float));
                for (size_t j = 0; j < (size_t)length(i); j++) {
                    first_d[shift + j] += (double)x[2 * shift + j];
                    first[0][shift + j] = (float)xd[2 * shift + j];
                }
                (*v)->add_wide(got_d + shift, x + 2 * shift, (size_t)length(i));
                (*v)->narrow(got[0] + shift, xd + 2 * shift, (size_t)length(i));
                assert_memory_equal(got_d, first_d, ROOM * sizeof *yd);
                assert_memory_equal(got[0], first[0], ROOM * sizeof(float));
            }
}

/* element i in lane i % 16, then lane l and lane l + 8, 4, 2, 1 */
static double slow_sumsq(const float *v, size_t n)
{
    double lane[16] = {0};

    for (size_t i = 0; i < n; i++) {
        volatile double square = (double)v[i] * (double)v[i];
        lane[i % 16] += square;
    }
    for (int half = 8; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static void sumsq_adds_in_sixteen_lanes(void **state)
{
    (void)state;
    for (const weir_vec *const *v = weir_vec_all(); *v; v++)
        for (int i = 0; length(i) >= 0; i++)
            for (size_t shift = 0; shift < 5; shift++) {
                double want = slow_sumsq(x + shift, (size_t)length(i)),
                       have = (*v)->sumsq(x + shift, (size_t)length(i));
                long double plain = 0;
                assert_memory_equal(&want, &have, sizeof want);
                for (long j = 0; j < length(i); j++)
                    plain += (long double)x[shift + (size_t)j] * x[shift + (size_t)j];
                assert_true(fabsl(plain - have) <= 1e-12L * plain);
            }
}

/* denormals, zeros of both signs, the largest floats: no variant may flush or reorder */
static void extremes_agree(void **state)
{
    const float odd[] = {0.0f,           -0.0f,         1e-45f,         -1e-45f,
                         1.1754942e-38f, 3.4028235e38f, -3.4028235e38f, 1.0f};
    const weir_vec *const *all = weir_vec_all();
    float *saved = malloc(ROOM * sizeof *x);

    (void)state;
    assert_non_null(saved);
    memcpy(saved, x, ROOM * sizeof *x);
    for (size_t i = 0; i < ROOM; i++)
        x[i] = odd[i * 2654435761u % 8];
    for (const weir_vec *const *v = all; *v; v++) {
        double base = all[0]->sumsq(x, 999), this = (*v)->sumsq(x, 999);
        assert_memory_equal(&base, &this, sizeof base);
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
            check_one(*v, k, 99, 1);
    }
    memcpy(x, saved, ROOM * sizeof *x);
    free(saved);
}

static void one_bad_value_is_found_anywhere(void **state)
{
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};

    (void)state;
    for (const weir_vec *const *v = weir_vec_all(); *v; v++) {
        assert_true((*v)->finite(x, 0));
        assert_true((*v)->finite(x, LONGEST));
        for (size_t at = 0; at < 131; at++)
            for (int b = 0; b < 4; b++) {
                float kept = x[1 + at];
                x[1 + at] = bad[b];
                assert_false((*v)->finite(x + 1, 131));
                assert_true((*v)->finite(x + 1, at));
                assert_false(isfinite((*v)->sumsq(x + 1, 131)));
                assert_false(isfinite((*v)->most(x + 1, 131)));
                x[1 + at] = kept;
            }
        x[0] = 3.4028235e38f;
        assert_true((*v)->finite(x, 17));
        assert_true(isfinite((*v)->sumsq(x, 17)));
    }
}

/* ---- what codecs are fed ---- */

enum { FED = 1000, AROUND = FED + 64 };

/* One element by the header's words; what it holds beyond `least` is taken from it. */
static float slow_sift(const weir_vec_source *s, size_t i, float least, float take, float *sped,
                       weir_vec_sifted *to)
{
    float g = times(s->scale, s->grad[i]), made = g;

    if (s->speed) {
        *sped = plus(times(s->momentum, s->speed[i]), g);
        made = s->nesterov ? plus(g, times(s->momentum, *sped)) : *sped;
    }
    made = s->held ? plus(s->held[i], made) : made;
    to->most = fabsf(made) > to->most ? fabsf(made) : to->most;
    if (!(fabsf(made) > least))
        return made;
    if (s->speed && s->mask && take > 0)
        *sped = 0;
    to->word[to->count] = (uint32_t)i << 1 | (made < 0);
    to->value[to->count++] = made;
    return made < 0 ? plus(made, take) : plus(made, -take);
}

static void check_sift(const weir_vec *v, const weir_vec_source *s, size_t n, size_t shift,
                       float least, float take)
{
    uint32_t word[2][FED + WEIR_VEC_SIFT_SPARE];
    float value[2][FED + WEIR_VEC_SIFT_SPARE];
    weir_vec_sifted want = {word[0], value[0], 0, 0}, have = {word[1], value[1], 7, 7};
    weir_vec_source mine = *s;

    for (int o = 0; o < 2; o++) {
        memcpy(got[o], begin[o], AROUND * sizeof(float));
        memcpy(first[o], begin[o], AROUND * sizeof(float));
    }
    mine.sped = got[1] + shift;
    for (size_t i = 0; i < n; i++)
        first[0][shift + i] = slow_sift(s, i, least, take, first[1] + shift + i, &want);
    v->sift(got[0] + shift, &mine, n, least, take, &have);
    v->fence();
    for (int o = 0; o < 2; o++)
        assert_memory_equal(got[o], first[o], AROUND * sizeof(float));
    assert_int_equal(have.count, want.count);
    assert_memory_equal(word[0], word[1], want.count * sizeof **word);
    assert_memory_equal(value[0], value[1], want.count * sizeof **value);
    assert_true(have.most == want.most);
    if (take != 0)
        return;
    assert_true(v->feed(got[0] + shift, &mine, n) == want.most);
    assert_memory_equal(got[0], first[0], AROUND * sizeof(float));
    assert_true(v->most(got[0] + shift, n) == want.most);
    assert_int_equal(v->count_over(got[0] + shift, n, least), want.count);
    v->stream(got[1] + shift, got[0] + shift, n);
    v->fence();
    assert_memory_equal(got[1] + shift, got[0] + shift, n * sizeof(float));
}

static void what_codecs_are_fed(void **state)
{
    static const float least[] = {0, 0.5f, 1e30f};

    (void)state;
    for (const weir_vec *const *v = weir_vec_all(); *v; v++)
        for (int i = 0; length(i) <= FED && length(i) >= 0; i++)
            for (size_t shift = 0; shift < 5; shift++)
                for (int how = 0; how < 16; how++) {
                    weir_vec_source s = {.grad = x + shift,
                                         .held = how & 1 ? begin[2] + shift : NULL,
                                         .speed = how & 2 ? x + 99 + shift : NULL,
                                         .scale = 0.3f,
                                         .momentum = 0.9f,
                                         .nesterov = how & 4,
                                         .mask = how & 8};
                    check_sift(*v, &s, (size_t)length(i), shift, least[i % 3],
                               how % 3 ? least[i % 3] : 0);
                }
}

static void the_sums_of_bucket_h_add(void **state)
{
    float a[3] = {1, 2, 3}, b[3] = {0.5f, 0.25f, -3};
    double c[2] = {1, 1e-20}, d[2] = {1e-16, 1e-20};

    (void)state;
    weir_sum_f32.add(a, b, 3);
    weir_sum_f64.add(c, d, 2);
    assert_true(a[0] == 1.5f && a[1] == 2.25f && a[2] == 0 && c[1] == 2e-20);
    assert_true(weir_sum_f32.unit == 4 && weir_sum_f64.unit == 8);
}

static void best_is_one_of_all(void **state)
{
    const weir_vec *const *all = weir_vec_all();
    int n = 0;
    bool found = false;

    (void)state;
    assert_string_equal(all[0]->isa, "baseline");
    for (; all[n]; n++)
        found |= all[n] == weir_vec_best();
    assert_true(found);
    print_message("%d variants, best is %s\n", n, weir_vec_best()->isa);
}

/* But not of the variables of tests, which nobody reads. */
static void say(void *arg, int level, const char *part, const char *text)
{
    (void)arg, (void)level;
    if (strcmp(part, "env") || strstr(text, "WEIR_ISA="))
        fprintf(stderr, "%s\n", text);
}

/* The choice is made once a process, so each mask is tried in a process of its own: this program,
 * told to name its choice. */
static void choice_under(const char *value, char *answer, size_t room)
{
    char line[600];
    FILE *f;

    snprintf(line, sizeof line, "WEIR_ISA=%s WEIR_TEST_NAME=1 /proc/%d/exe 2>&1", value,
             (int)getpid());
    assert_non_null(f = popen(line, "r"));
    answer[fread(answer, 1, room - 1, f)] = 0;
    assert_int_equal(pclose(f), 0);
}

static void the_mask_is_obeyed(void **state)
{
    char answer[600];
    const weir_vec *const *all = weir_vec_all();
    int last = 0;

    (void)state;
    while (all[last + 1])
        last++;
    choice_under("baseline", answer, sizeof answer);
    assert_string_equal(answer, "baseline\n");
    choice_under("avx2", answer, sizeof answer);
    assert_string_equal(answer, last > 0 ? "avx2\n" : "baseline\n");
    choice_under("avx512", answer, sizeof answer);
    assert_memory_equal(answer, all[last]->isa, strlen(all[last]->isa));
    choice_under("sse9", answer, sizeof answer);
    assert_non_null(strstr(answer, "WEIR_ISA=sse9"));
    assert_non_null(strstr(answer, all[last]->isa));
}

/* ---- many at once ---- */

/* in (0, 1]: the order of adding shows in the bits */
static double fraction(int i, size_t j)
{
    return 1.0 / (double)(1 + (j * 7 + (size_t)i * 13) % 97);
}

static void all_at_once_has_the_bits_of_one_by_one(void **state)
{
    enum { N = 5000, K = 9 };
    static float x[K][N + 8];
    static double d[K][N + 8];

    (void)state;
    for (const weir_vec *const *v = weir_vec_all(); *v; v++)
        for (int k = 1; k <= K; k++)
            for (size_t n = 0, shift = 0; n <= N; n = n * 7 / 4 + 1, shift = (shift + 1) % 7) {
                void *p[K], *pd[K];
                for (int i = 0; i < K; i++) {
                    p[i] = x[i] + (shift + (size_t)i) % 8, pd[i] = d[i] + (shift + (size_t)i) % 8;
                    for (size_t j = 0; j < N + 8; j++)
                        x[i][j] = d[i][j] = -1;
                    for (size_t j = 0; j < n; j++)
                        ((float *)p[i])[j] = (float)fraction(i, j),
                                ((double *)pd[i])[j] = fraction(i, j);
                }
                (*v)->add_all(p, k, n);
                (*v)->add_all_f64(pd, k, n);
                for (size_t j = 0; j < n; j++) {
                    float s = (float)fraction(0, j);
                    double sd = fraction(0, j);
                    for (int i = 1; i < k; i++)
                        s += (float)fraction(i, j), sd += fraction(i, j);
                    for (int i = 0; i < k; i++)
                        assert_true(((float *)p[i])[j] == s && ((double *)pd[i])[j] == sd);
                }
                for (int i = 0; i < k; i++)
                    assert_true(n > N - 8 ||
                                (((float *)p[i])[n] == -1 && ((double *)pd[i])[n] == -1));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_has_the_formulas_bits),
        cmocka_unit_test(add_f64_has_the_formulas_bits),
        cmocka_unit_test(floats_and_doubles_become_each_other),
        cmocka_unit_test(sumsq_adds_in_sixteen_lanes),
        cmocka_unit_test(extremes_agree),
        cmocka_unit_test(one_bad_value_is_found_anywhere),
        cmocka_unit_test(what_codecs_are_fed),
        cmocka_unit_test(the_sums_of_bucket_h_add),
        cmocka_unit_test(all_at_once_has_the_bits_of_one_by_one),
        cmocka_unit_test(best_is_one_of_all),
        cmocka_unit_test(the_mask_is_obeyed),
    };

    if (getenv("WEIR_TEST_NAME")) {
        weir_on_log(say, NULL);
        return puts(weir_vec_best()->isa) < 0;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
