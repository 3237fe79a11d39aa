/* Which elements sparse codecs send, and how many; what was sent begins anew. */
#include "core/vec.h"
#include "help_codec.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static size_t sent(const coder_rig *r)
{
    size_t k = 0;

    for (size_t i = 0; i < r->bucket.n; i++)
        k += r->value[i] != 0;
    return k;
}

/* k = 200 of 20,000. */
static void selection_sizes(void **state)
{
    static const size_t one[][2] = {{10, 2000}};
    static const struct {
        const char *spec;
        size_t least, most;
    } row[] = {{"topk:density=0.01", 60, 400},
               {"topk:density=0.01,select=exact", 200, 200},
               {"dgc:density=0.01", 60, 266},
               {"topk:density=0.01,select=hierarchical", 60, 266},
               {"redsync:density=0.01,quantise=no,select=trimmed", 200, 200},
               {"redsync:density=0.01,quantise=no,select=search", 200, 400},
               {"redsync:density=0.01,select=trimmed", 200, 200},
               {"redsync:density=0.01,select=search", 200, 400}};

    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        for (kind g = NORMAL; g <= CONSTANT; g++) {
            coder_rig *r = coder_open(row[k].spec, 1, one);
            fill(r->grad, r->bucket.n, g, 9);
            assert_int_equal(coder_step(r, true), WEIR_OK);
            size_t n = sent(r), least = row[k].least, most = row[k].most;
            if (g == SPIKY && least < 200) /* few that matter: a sample may see none of them */
                least = 5;
            if (n < least || n > most)
                fail_msg("%s, kind %d: %zu sent, %zu to %zu were expected", row[k].spec, g, n,
                         least, most);
            coder_close(r);
        }
}

/* Whatever earlier steps left: never more than twice what is aimed at, of trimmed selection just so
 * many; quantised, both sides in turn. */
static void selection_sizes_later(void **state)
{
    static const size_t one[][2] = {{10, 2000}};
    static const struct {
        const char *spec;
        size_t least, most;
    } row[] = {{"topk:density=0.01,select=exact", 200, 200},
               {"topk:density=0.01", 1, 400},
               {"dgc:density=0.01", 1, 266},
               {"redsync:density=0.01,quantise=no,select=trimmed", 200, 200},
               {"redsync:density=0.01,select=trimmed", 200, 200},
               {"redsync:density=0.01,quantise=no,select=search", 1, 400},
               {"redsync:density=0.01,select=search", 200, 400}};

    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        for (kind g = NORMAL; g < CONSTANT; g++) {
            coder_rig *r = coder_open(row[k].spec, 1, one);
            for (int step = 0; step < 12; step++) {
                fill(r->grad, r->bucket.n, g, (uint64_t)step);
                assert_int_equal(coder_step(r, true), WEIR_OK);
                size_t n = sent(r);
                if (n < row[k].least || n > row[k].most)
                    fail_msg("%s, kind %d, step %d: %zu sent, %zu to %zu were expected",
                             row[k].spec, g, step, n, row[k].least, row[k].most);
                coder_commit(r);
            }
            coder_close(r);
        }
}

/* What is sent by an exact selection is never smaller than what stays. */
static void largest_are_sent(void **state)
{
    static const char *const spec[] = {"topk:select=exact,density=0.02",
                                       "redsync:quantise=no,select=trimmed,density=0.02",
                                       "redsync:quantise=no,select=search,density=0.02"};

    (void)state;
    for (size_t k = 0; k < sizeof spec / sizeof *spec; k++) {
        static const size_t one[][2] = {{10, 2000}};
        coder_rig *r = coder_open(spec[k], 1, one);
        float least = INFINITY, left = 0;
        fill(r->grad, r->bucket.n, HEAVY, 4);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        for (size_t i = 0; i < r->bucket.n; i++)
            if (r->value[i] != 0)
                least = fminf(least, fabsf(r->value[i]));
            else
                left = fmaxf(left, fabsf(r->hold[i]));
        assert_true(least >= left);
        coder_close(r);
    }
}

/* The density that strom follows is met within a few steps, for gradients of any size. */
static void strom_follows(void **state)
{
    static const size_t one[][2] = {{100, 600}};

    (void)state;
    for (int e = -6; e <= 3; e += 3) {
        coder_rig *r = coder_open("strom:density=0.01", 1, one);
        double share = 0;
        for (int step = 0; step < 200; step++) {
            fill(r->grad, r->bucket.n, NORMAL, (uint64_t)step);
            weir_vec_best()->scale(r->grad, powf(10, (float)e) * (step > 60 ? 0.1f : 1),
                                   r->bucket.n);
            assert_int_equal(coder_step(r, true), WEIR_OK);
            share += step >= 150 ? (double)sent(r) / (double)r->bucket.n / 50 : 0;
            coder_commit(r);
        }
        if (share < 0.005 || share > 0.02)
            fail_msg("gradients of 1e%d: density %g", e, share);
        coder_close(r);
    }
}

/* Two tensors, one with gradients a hundredth of the other's: each has the share that is aimed at,
 * or one threshold holds the small ones back. */
static void strom_per(void **state)
{
    static const size_t two[][2] = {{100, 100}, {100, 100}};

    (void)state;
    for (int bucket = 0; bucket < 2; bucket++) {
        coder_rig *r = coder_open(bucket ? "strom:density=0.01,per=bucket,ramp=0"
                                         : "strom:density=0.01,ramp=0",
                                  2, two);
        size_t half = r->bucket.n / 2, of[2] = {0};
        fill(r->grad, r->bucket.n, NORMAL, 7);
        weir_vec_best()->scale(r->grad + half, 0.01f, half);
        assert_int_equal(coder_step(r, true), WEIR_OK);
        for (size_t i = 0; i < r->bucket.n; i++)
            of[i / half] += r->value[i] != 0;
        assert_true(bucket ? of[0] > 150 && of[0] < 260 && of[1] == 0
                           : of[0] > 60 && of[0] < 150 && of[1] > 60 && of[1] < 150);
        coder_close(r);
    }
}

/* ---- masking: what was sent begins anew ---- */

static void masks(void **state)
{
    static const char *const sparse[] = {"strom", "topk", "dgc", "redsync"};

    (void)state;
    for (size_t k = 0; k < sizeof sparse / sizeof *sparse; k++) {
        coder_rig *r = coder_open(sparse[k], usual_bucket.views, usual_bucket.shape);
        size_t n = r->bucket.n;
        float *speed = calloc(n, sizeof *speed), *sped = calloc(n, sizeof *sped);
        fill(r->grad, n, NORMAL, 2);
        fill(speed, n, NORMAL, 3);
        assert_true(r->codec->sparse);
        r->feed = (weir_feed){.n = n,
                              .bad = n,
                              .grad = r->grad,
                              .scale = 1,
                              .held = r->held,
                              .hold = r->hold,
                              .speed = speed,
                              .sped = sped,
                              .momentum = 0.9f,
                              .mask = true,
                              .tile = r->feed.tile};
        assert_int_equal(r->codec->encode(r->self, r->when, &r->feed, r->msg, &r->len), WEIR_OK);
        assert_int_equal(r->codec->decode(r->self, r->when, r->msg, r->len, r->value), WEIR_OK);
        assert_true(sent(r) > 0);
        for (size_t i = 0; i < n; i++)
            assert_true(sped[i] == (r->value[i] != 0 ? 0 : 0.9f * speed[i] + r->grad[i]));
        free(speed);
        free(sped);
        coder_close(r);
    }
}

static void when_it_masks(void **state)
{
    static const struct {
        const char *spec;
        bool masks;
    } want[] = {{"strom", false},
                {"topk", false},
                {"dgc", false},
                {"redsync", false},
                {"strom:mask=yes", true},
                {"dgc:mask=yes", true},
                {"strom:warmup=0", true},
                {"strom:warmup=0.49", true},
                {"strom:warmup=0.5", false},
                {"redsync:warmup=0", true},
                {"topk:warmup=0,mask=no", false},
                {"topk:warmup=3,mask=auto", false}};

    (void)state;
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        coder_rig *r = coder_open(want[k].spec, usual_bucket.views, usual_bucket.shape);
        if (weir_codec_masks(r->self) != want[k].masks)
            fail_msg("%s: masks: %d", want[k].spec, !want[k].masks);
        coder_close(r);
    }
}

/* However small a tensor is, or alike its elements are: something of it leaves in every step. */
static void strom_sends_of_every_tensor(void **state)
{
    static const size_t two[][2] = {{10, 84}, {1, 300}};

    (void)state;
    for (kind g = NORMAL; g <= CONSTANT; g++) {
        coder_rig *r = coder_open("strom:density=0.001", 2, two);
        for (int step = 0; step < 50; step++) {
            bool any[2] = {false, false};
            fill(r->grad, r->bucket.n, g, (uint64_t)step);
            assert_int_equal(coder_step(r, true), WEIR_OK);
            for (size_t i = 0; i < r->bucket.n; i++)
                any[i >= 840] |= r->value[i] != 0;
            if (!any[0] || !any[1])
                fail_msg("kind %d, step %d: nothing is sent of tensor %d", g, step, any[0]);
            coder_commit(r);
        }
        coder_close(r);
    }
}

/* Of the output layer numbers travel as they are, of both signs; of others one mean, of one. */
static void redsync_leaves_the_output(void **state)
{
    static const size_t two[][2] = {{10, 200}, {10, 200}};
    coder_rig *r = coder_open("redsync:density=0.01", 2, two);
    size_t sent[2] = {0}, minus[2] = {0}, alike[2] = {0};
    float first[2] = {0};

    (void)state;
    r->tensor[0].output = true;
    fill(r->grad, r->bucket.n, NORMAL, 3);
    assert_int_equal(coder_step(r, true), WEIR_OK);
    for (size_t i = 0; i < r->bucket.n; i++)
        if (r->value[i] != 0) {
            int v = i >= 2000;
            first[v] = first[v] > 0 ? first[v] : fabsf(r->value[i]);
            sent[v]++;
            minus[v] += r->value[i] < 0;
            alike[v] += fabsf(r->value[i]) == first[v];
            if (!v)
                assert_true(r->hold[i] == 0 && r->value[i] == r->grad[i]);
        }
    assert_true(sent[0] == 20 && minus[0] > 0 && minus[0] < 20 && alike[0] == 1);
    assert_true(sent[1] == 20 && minus[1] == 0 && alike[1] == 20);
    coder_close(r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selection_sizes),
        cmocka_unit_test(selection_sizes_later),
        cmocka_unit_test(largest_are_sent),
        cmocka_unit_test(strom_follows),
        cmocka_unit_test(strom_sends_of_every_tensor),
        cmocka_unit_test(redsync_leaves_the_output),
        cmocka_unit_test(strom_per),
        cmocka_unit_test(masks),
        cmocka_unit_test(when_it_masks),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
