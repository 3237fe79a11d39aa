/* The laws of codec/, over every codec in the list: nothing is lost, and what cannot be sent is
 * told. */
#include "help_codec.h"
#include "core/rng.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Every codec there is has a row in codec_specs. */
static void all_are_tried(void **state)
{
    (void)state;
    for (weir_plugs p = weir_codecs; *p; p++) {
        bool found = false;
        for (const char *const *s = codec_specs; *s; s++)
            found |= strcspn(*s, ":") == strlen((*p)->name) &&
                     !strncmp(*s, (*p)->name, strlen((*p)->name));
        if (!found)
            fail_msg("the codec %s has no row in codec_specs (help_codec.c)", (*p)->name);
    }
}

/* ---- conservation ---- */

/* The largest error of a rounding to the nearest float, by what is rounded; and the smallest
 * float. */
static const double U = 0x1p-24, LEAST = 0x1p-149;

/* How far what is sent and held back of x may be from x by rounding.
 *
 * Held back is a difference of two floats, rounded once. Of products of thin matrices (powersgd, of
 * rank r at most 5 here) r are added to make what is sent, and r are taken from x: 2 r roundings of
 * sums that are at most |x| and what the products come to; and as P is orthonormal and Q = X^T P,
 * that is at most the norm of x's column (Cauchy and Schwarz). */
static double rounding(const coder_rig *r, size_t i, const double *column)
{
    double x = fabs((double)r->before[i]);

    if (r->codec->rounds > 1)
        return 10 * U * (x + column[i]) + LEAST;
    return U * (x + fabs((double)r->value[i])) + LEAST;
}

/* The norm of the column of its matrix that each element is in. */
static void column_norms(const coder_rig *r, double *column)
{
    for (int v = 0; v < r->bucket.views; v++) {
        const weir_view *w = &r->view[v];
        const float *x = r->before + w->at;
        for (size_t j = 0; j < w->cols; j++) {
            double sum = 0;
            for (size_t i = 0; i < w->rows; i++)
                sum += pow((double)x[i * w->cols + j], 2);
            for (size_t i = 0; i < w->rows; i++)
                column[w->at + i * w->cols + j] = sqrt(sum);
        }
    }
}

/* sent + held back = what was given, element by element. */
static void check_elements(const coder_rig *r, const char *spec, kind k, const double *column)
{
    for (size_t i = 0; i < r->bucket.n; i++) {
        double x = (double)r->before[i], sent = (double)r->value[i], held = (double)r->hold[i];
        if (!(fabs(x - sent - held) <= rounding(r, i, column)))
            fail_msg("%s, kind %d, step %d, element %zu: %.9g became %.9g and %.9g", spec, k,
                     (int)r->when.step, i, x, sent, held);
    }
}

/* What the mean does not say is dropped: of what is sent nothing is held back, all of it is one
 * number with the sign that each had, and that number is their mean, rounded once; so their sum is
 * conserved, if not each of them. What is not sent is held back as it is. */
static void check_dropped(const coder_rig *r, const char *spec, kind k)
{
    for (int v = 0; v < r->bucket.views; v++) {
        const weir_view *w = &r->view[v];
        double sum = 0, mean = 0;
        size_t sent = 0, off = 0;
        for (size_t i = w->at; i < w->at + w->rows * w->cols; i++) {
            if (r->value[i] == 0) { /* not sent, or a mean of nothing */
                off += r->hold[i] != r->before[i];
                continue;
            }
            sent++;
            sum += fabs((double)r->before[i]);
            mean = fabs((double)r->value[i]);
            off += r->hold[i] != 0 || signbit(r->value[i]) != signbit(r->before[i]);
        }
        for (size_t i = w->at; i < w->at + w->rows * w->cols; i++)
            off += r->value[i] != 0 && fabs((double)r->value[i]) != mean;
        if (off || !(fabs(sum - (double)sent * mean) <= (double)sent * (U * mean + LEAST)))
            fail_msg("%s, kind %d, step %d, tensor %d: %zu elements are not as they should be; "
                     "%zu that were sent came to %.9g, and were sent as %.9g each",
                     spec, k, (int)r->when.step, v, off, sent, sum, mean);
    }
}

/* Sums over all steps, and how far they may be off: by each step's rounding, and by that of what
 * was held back and the gradient to their sum. */
typedef struct totals {
    double *given, *sent, *room, *column;
} totals;

static void check_totals(const coder_rig *r, totals *t, const char *spec, kind k)
{
    for (size_t i = 0; i < r->bucket.n; i++) {
        t->given[i] += (double)r->grad[i];
        t->sent[i] += (double)r->value[i];
        t->room[i] += rounding(r, i, t->column) + U * fabs((double)r->before[i]) + LEAST;
        if (!(fabs(t->given[i] - t->sent[i] - (double)r->hold[i]) <= t->room[i]))
            fail_msg("%s, kind %d, element %zu: given %g, sent %g, held back %g", spec, k, i,
                     t->given[i], t->sent[i], (double)r->hold[i]);
    }
}

static void check_conserved(const char *spec, kind k, bucket_shape of)
{
    coder_rig *r = coder_open(spec, of.views, of.shape);
    size_t n = r->bucket.n;
    double *all = calloc(4 * n + 1, sizeof *all);
    totals t = {all, all + n, all + 2 * n, all + 3 * n};
    bool drops = strstr(spec, "error=drop") != NULL;

    for (int step = 0; step < 12; step++) {
        fill(r->grad, n, k, (uint64_t)step);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        assert_int_equal(r->feed.bad, n);
        column_norms(r, t.column);
        if (drops) {
            check_dropped(r, spec, k);
        } else {
            check_elements(r, spec, k, t.column);
            check_totals(r, &t, spec, k);
        }
        coder_commit(r);
    }
    free(all);
    coder_close(r);
}

static void conservation(void **state)
{
    (void)state;
    for (const char *const *s = codec_specs; *s; s++)
        for (kind k = 0; k < KINDS; k++)
            if (strcmp(*s, "none"))
                check_conserved(*s, k, usual_bucket);
}

/* Buckets of nothing and of one element, tensors of nothing beside others: as any other. */
static void smallest(void **state)
{
    (void)state;
    for (const char *const *s = codec_specs; *s; s++)
        for (int f = 0; f < FEW; f++)
            for (kind k = 0; k < KINDS && strcmp(*s, "none"); k++)
                check_conserved(*s, k, few_elements[f]);
}

/* Bit for bit, where whole numbers in floats are all there is. */
static void whole_numbers(void **state)
{
    static const char *const exact[] = {"half:residual=yes",
                                        "half:bf16,residual=yes",
                                        "topk",
                                        "topk:select=exact",
                                        "topk:select=hierarchical,rice=no",
                                        "topk:density=1",
                                        "dgc",
                                        "redsync:quantise=no",
                                        "redsync:quantise=no,select=search",
                                        "powersgd:1000",
                                        "auto:among=topk",
                                        "strom:tau=2",
                                        "strom:tau=2,quanta=7",
                                        "strom:tau=1,pack=none",
                                        NULL};

    (void)state;
    for (const char *const *s = exact; *s; s++) {
        coder_rig *r = coder_open(*s, usual_bucket.views, usual_bucket.shape);
        for (int step = 0; step < 10; step++) {
            fill(r->grad, r->bucket.n, WHOLE, (uint64_t)step);
            assert_int_equal(coder_step(r, true), WEIR_OK);
            for (size_t i = 0; i < r->bucket.n; i++)
                assert_true(r->before[i] == r->value[i] + r->hold[i]);
            coder_commit(r);
        }
        coder_close(r);
    }
}

/* ---- gradients that are not finite ---- */

/* Encoding goes well, and the feed tells the tile that the first of them is in. Decoding takes the
 * message or refuses it, and no more. */
static void check_noticed(coder_rig *r, const char *spec, size_t first)
{
    weir_err err = coder_step(r, true);

    if (err != WEIR_OK && err != WEIR_INVALID)
        fail_msg("%s: %s: %s", spec, weir_err_name(err), weir_why_text());
    if (r->coded != WEIR_OK)
        fail_msg("%s: encoding failed: %s", spec, weir_why_text());
    if (!r->codec->raw && !(r->feed.bad <= first && first < r->feed.bad + WEIR_FEED_TILE))
        fail_msg("%s: element %zu is not finite, and the feed says %zu", spec, first, r->feed.bad);
}

static void not_finite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (const char *const *s = codec_specs; *s; s++)
        for (int k = 0; k < 3; k++) {
            coder_rig *r = coder_open(*s, usual_bucket.views, usual_bucket.shape);
            fill(r->grad, r->bucket.n, NORMAL, 1);
            r->grad[3300] = bad[k]; /* in "b" */
            check_noticed(r, *s, 3300);
            coder_close(r);
        }
}

/* However many there are, and wherever: a message stays within its bound (coder_step looks). */
static void many_not_finite(void **state)
{
    static const size_t one[][2] = {{120, 400}};

    (void)state;
    for (const char *const *s = codec_specs; *s; s++)
        for (size_t every = 1; every < 300; every = every * 3 / 2 + 1)
            for (int rows = 0; rows < 2; rows++) {
                coder_rig *r = coder_open(*s, 1, one);
                fill(r->grad, r->bucket.n, every % 3 ? NORMAL : HEAVY, every);
                for (size_t i = 0; i < r->bucket.n; i++)
                    if (rows ? i / every % 2 : i % every == 0)
                        r->grad[i] = every % 2 && i % 3 == 0 ? INFINITY : NAN;
                check_noticed(r, *s, rows ? every : 0);
                coder_close(r);
            }
}

/* The largest floats there are: what comes out is finite, and not all of it is lost. */
static void end_of_the_range(void **state)
{
    (void)state;
    for (const char *const *s = codec_specs; *s; s++) {
        coder_rig *r = coder_open(*s, usual_bucket.views, usual_bucket.shape);
        double sum = 0;
        for (size_t i = 0; i < r->bucket.n; i++)
            r->grad[i] = (float)(i * 7919 % 100003) / 100003 * (i % 3 ? 3e38f : -3e38f);
        if (r->codec->rounds == 1) { /* powersgd multiplies two of them */
            assert_int_equal(coder_step(r, true), WEIR_OK);
            for (size_t i = 0; i < r->bucket.n; i++) {
                if (!isfinite(r->value[i]))
                    fail_msg("%s: element %zu is %g", *s, i, (double)r->value[i]);
                sum += fabs((double)r->value[i]);
            }
            if (!(sum > 0))
                fail_msg("%s: nothing was sent", *s);
        }
        coder_close(r);
    }
}

/* ---- laws of some ---- */

static void off_is_dense(void **state)
{
    static const char *const off[] = {"none",
                                      "topk:density=1",
                                      "topk:density=1,select=exact",
                                      "topk:density=1,select=hierarchical",
                                      "dgc:density=1",
                                      "redsync:density=1,quantise=no,select=trimmed",
                                      "redsync:density=1,quantise=no,select=search",
                                      "powersgd:64"};

    (void)state;
    for (size_t k = 0; k < sizeof off / sizeof *off; k++) {
        coder_rig *r = coder_open(off[k], 2, usual_bucket.shape);
        fill(r->grad, r->bucket.n, NORMAL, 3);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        assert_memory_equal(r->value, r->before, r->bucket.n * sizeof(float));
        coder_close(r);
    }
}

/* The mean of many draws is the element, within 5 standard deviations: of 120 elements, one would
 * be further off in one of some 10,000 seeds, and the seed is fixed. What is drawn without chance
 * is rounded once. */
static void unbiased(void **state)
{
    static const char *const drawn[] = {"qsgd", "qsgd:levels=1", "terngrad:clip=0"};
    static const size_t one[][2] = {{1, 40}};
    enum { DRAWS = 100000 };

    (void)state;
    for (size_t k = 0; k < sizeof drawn / sizeof *drawn; k++) {
        coder_rig *r = coder_open(drawn[k], 1, one);
        double sum[40] = {0}, square[40] = {0};
        fill(r->value, 40, NORMAL, 5);
        float x[40];
        memcpy(x, r->value, sizeof x);
        for (int d = 0; d < DRAWS; d++) {
            memcpy(r->grad, x, sizeof x);
            r->when.step = (uint64_t)d;
            assert_int_equal(coder_step(r, false), WEIR_OK);
            for (int i = 0; i < 40; i++)
                sum[i] += (double)r->value[i],
                    square[i] += (double)r->value[i] * (double)r->value[i];
        }
        for (int i = 0; i < 40; i++) {
            double mean = sum[i] / DRAWS,
                   deviation = sqrt(fmax(0, square[i] / DRAWS - mean * mean) / DRAWS);
            if (fabs(mean - (double)x[i]) > 5 * deviation + U * fabs((double)x[i]))
                fail_msg("%s: the mean of element %d is %g, not %g (deviation %g)", drawn[k], i,
                         mean, (double)x[i], deviation);
        }
        coder_close(r);
    }
}

/* grad = the sum of the first `rank` products of a column and a row. */
static void make_low_rank(coder_rig *r, int rank)
{
    float u[3][120], v[3][80];

    fill(&u[0][0], 360, NORMAL, 1);
    fill(&v[0][0], 240, HEAVY, 2);
    memset(r->grad, 0, r->bucket.n * sizeof(float));
    for (size_t i = 0; i < 120; i++)
        for (size_t j = 0; j < 80; j++)
            for (int k = 0; k < rank; k++)
                r->grad[i * 80 + j] += u[k][i] * v[k][j];
}

/* What has no more rank than the messages arrives whole, whatever the steps before were: nothing,
 * or something of a lower rank. Each element of P is a sum of 80 products and each of Q one of 120:
 * so many roundings at most. */
static void low_rank(void **state)
{
    static const size_t one[][2] = {{120, 80}};
    coder_rig *r = coder_open("powersgd:3", 1, one);

    (void)state;
    for (int rank = 0; rank <= 3; rank++) {
        double off = 0, norm = 0;
        make_low_rank(r, rank);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        for (size_t i = 0; i < r->bucket.n; i++) {
            off += pow((double)r->value[i] - (double)r->before[i], 2);
            norm += pow((double)r->before[i], 2);
        }
        assert_true(off <= pow((80 + 120) * U, 2) * norm);
        coder_commit(r);
    }
    coder_close(r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_tried),    cmocka_unit_test(conservation),
        cmocka_unit_test(smallest),         cmocka_unit_test(whole_numbers),
        cmocka_unit_test(not_finite),       cmocka_unit_test(many_not_finite),
        cmocka_unit_test(end_of_the_range), cmocka_unit_test(off_is_dense),
        cmocka_unit_test(unbiased),         cmocka_unit_test(low_rank),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
