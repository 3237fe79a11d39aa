/* select.c - see select.h. */
#include "codec/select.h"
#include <math.h>

enum { LEAST_SAMPLE = 512, HITS = 16 /* of the sample, at least, if it is not too long */ };

static void swap(float *a, float *b)
{
    float t = *a;

    *a = *b;
    *b = t;
}

static float middle(float a, float b, float c)
{
    float low = a < b ? a : b, high = a < b ? b : a;

    return c < low ? low : c > high ? high : c;
}

/* Hoare's: larger ones to the front, on both sides of a pivot until the k-th stands alone. Both
 * scans stop at equals, so constant input is halved too; bounds hold them where a NaN is compared
 * with. */
float weir_select(float *x, size_t n, size_t k)
{
    size_t low = 0, high = n - 1, at = k - 1;

    while (low < high) {
        float pivot = middle(x[low], x[low + (high - low) / 2], x[high]);
        size_t i = low, j = high;
        for (;;) {
            while (i < high && x[i] > pivot)
                i++;
            while (j > low && x[j] < pivot)
                j--;
            if (i >= j)
                break;
            swap(&x[i++], &x[j--]);
            if (i > j)
                break;
        }
        if (at <= j && j < high)
            high = j;
        else if (at >= i && i > low)
            low = i;
        else
            break;
    }
    return x[at];
}

static size_t draw(const weir_select_from *from, float *to, size_t most)
{
    size_t n = from->n, stride = n / most + 1, k = 0;
    float side = (float)from->side;

    for (size_t i = (size_t)(from->step * 0x9e3779b97f4a7c15ull >> 33) % stride; i < n;
         i += stride) {
        float x = weir_feed_at(from->feed, from->at + i);
        to[k++] = from->side && x * side <= 0 ? 0 : fabsf(x);
    }
    return k;
}

weir_select_sampled weir_select_level(const weir_select_from *from, double portion, float *sample)
{
    size_t want = (size_t)(HITS / portion), k, n;
    weir_select_sampled s = {0};
    double sum = 0;

    want = want < LEAST_SAMPLE         ? LEAST_SAMPLE
           : want > WEIR_SELECT_SAMPLE ? WEIR_SELECT_SAMPLE
                                       : want;
    n = draw(from, sample, want);
    for (size_t i = 0; i < n; i++) {
        sum += (double)sample[i];
        s.most = sample[i] > s.most ? sample[i] : s.most;
    }
    s.mean = n ? (float)(sum / (double)n) : 0;
    k = (size_t)(portion * (double)n + 0.5);
    s.index = k < 1 ? 1 : k > n ? n : k;
    s.level = n ? weir_select(sample, n, s.index) : 0;
    return s;
}
