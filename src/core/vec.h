/* vec.h - loops over floats, chosen at run time: baseline, AVX2, AVX-512. All variants give the
 * same bits (16 fixed lanes, no contraction), so that replicas on unlike machines agree.
 * WEIR_ISA=baseline|avx2|avx512 masks what the machine has. */
#ifndef WEIR_CORE_VEC_H
#define WEIR_CORE_VEC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The factors of a step of SGD with momentum. */
typedef struct weir_vec_sgd {
    float rate, momentum, decay, scale;
    bool nesterov;
} weir_vec_sgd;

/* Of AdaGrad. */
typedef struct weir_vec_adagrad {
    float rate, decay, eps, scale;
} weir_vec_adagrad;

/* The factors of a step of Adam, with all that depends on the step's number worked out. */
typedef struct weir_vec_adam {
    float take1, beta2, take2; /* 1 - beta1; beta2; 1 - beta2 */
    float root, eps;           /* 1 / sqrt(1 - beta2^t) */
    float rate, keep;          /* rate / (1 - beta1^t); what is left of a weight before it moves */
    float decay, scale;
} weir_vec_adam;

/* What codecs are fed:
 *   g = scale * grad
 *   sped = momentum * speed + g,  then g = nesterov ? g + momentum * sped : sped    (speed NULL:
 * not so) x = held + g                                                                    (held
 * NULL: g) */
typedef struct weir_vec_source {
    const float *grad, *held, *speed;
    float *sped;
    float scale, momentum;
    bool nesterov, mask;
} weir_vec_source;

/* What a sieve has put aside: in rising order place << 1 | (x < 0), and x; both have room for a
 * vector more than can be put there. */
typedef struct weir_vec_sifted {
    uint32_t *word;
    float *value;
    size_t count;
    float most; /* of all |x|; not finite if an x is not */
} weir_vec_sifted;
enum { WEIR_VEC_SIFT_SPARE = 16 };

typedef struct weir_vec {
    const char *isa;
    void (*add)(float *y, const float *x, size_t n); /* y += x */
    void (*add_f64)(double *y, const double *x, size_t n);
    void (*add_wide)(double *y, const float *x, size_t n); /* y += x */
    void (*narrow)(float *y, const double *x, size_t n);   /* y = x, rounded */
    /* each of the k vectors of floats (doubles) becomes x[0] + x[1] + ... + x[k - 1], added in this
     * order; they do not overlap */
    void (*add_all)(void *const *x, int k, size_t n);
    void (*add_all_f64)(void *const *x, int k, size_t n);
    void (*scale)(float *x, float a, size_t n);
    void (*axpy)(float *y, float a, const float *x, size_t n); /* y += a x */
    /* lanes in double; not finite if an x is not */
    double (*sumsq)(const float *x, size_t n);
    /* g = grad * scale + decay * w;  m = momentum * m + g;  w -= rate * (nesterov ? g + momentum *
     * m : m) */
    void (*sgd)(float *w, float *m, const float *grad, size_t n, const weir_vec_sgd *);
    /* the same where the gradient has its momentum already, and m is the decay's:
     * d = decay * w;  m = momentum * m + d;  w -= rate * (grad * scale + (nesterov ? d + momentum *
     * m : m)) */
    void (*sgd_apart)(float *w, float *m, const float *grad, size_t n, const weir_vec_sgd *);
    /* without momentum: no m */
    void (*sgd_plain)(float *w, const float *grad, size_t n, float rate, float decay, float scale);
    /* g = grad * scale + decay * w;  s += g * g;  w -= rate * (g / (sqrt(s) + eps)) */
    void (*adagrad)(float *w, float *s, const float *grad, size_t n, const weir_vec_adagrad *);
    /* g = grad * scale + decay * w;  m += take1 * (g - m);  v = beta2 * v + take2 * g * g;
     * w = keep * w - rate * (m / (sqrt(v) * root + eps)) */
    void (*adam)(float *w, float *m, float *v, const float *grad, size_t n, const weir_vec_adam *);
    bool (*finite)(const float *x, size_t n);
    float (*most)(const float *x, size_t n); /* the largest |x|; not finite if an x is not */
    /* x is made of it (x may be its grad); the largest |x|, as above */
    float (*feed)(float *x, const weir_vec_source *, size_t n);
    /* the same x goes to y, past the caches (y may be its grad); where |x| > least >= 0 its place
     * and sign are put aside, and x, and what goes to y is by `take` nearer to 0. If that is not 0
     * they are sent: where it says `mask`, sped is 0 there */
    void (*sift)(float *y, const weir_vec_source *, size_t n, float least, float take,
                 weir_vec_sifted *);
    void (*stream)(float *y, const float *x, size_t n); /* y = x, past the caches */
    /* other threads see what went past the caches before what is written now */
    void (*fence)(void);
    size_t (*count_over)(const float *x, size_t n, float least); /* how many have |x| > least */
} weir_vec;

/* The best variant this machine has and WEIR_ISA allows. */
const weir_vec *weir_vec_best(void);
/* Every variant this machine can run, NULL-ended, baseline first: for tests. */
const weir_vec *const *weir_vec_all(void);
#endif
