/* sieve.h - inside codec/: one way through a tensor that makes x, leaves it where it is held back,
 * and puts aside what may be large enough to be sent. How large that is says a sample, before. What
 * is sent in the end is chosen among those put aside. */
#ifndef WEIR_CODEC_SIEVE_H
#define WEIR_CODEC_SIEVE_H
#include "codec/codec.h"

typedef struct weir_sieve {
    /* what was put aside, in order: place << 1 | minus, and x there */
    uint32_t *word;
    float *value;
    size_t count; /* more than `room`: there were more than that, and nothing here is of use */
    size_t room;
    float mean, most; /* of the sample's |x|; of what was put aside */
    float *size;      /* room for |x| of them */
    /* of its own */
    weir_vec_sifted tile;
    float *sample;
} weir_sieve;

/* For tensors of up to n elements, of which at most `density` are sent. */
weir_err weir_sieve_make(weir_sieve *, size_t n, double density, weir_arena *);
/* Puts aside about `portion` of the tensor's elements, the largest. side 1: only those above 0; -1:
 * only those below; 0: both. */
void weir_sieve_largest(weir_sieve *, weir_feed *, const weir_view *, weir_when, double portion,
                        int side);
/* The same with all that are larger than `least`. */
void weir_sieve_over(weir_sieve *, weir_feed *, const weir_view *, float least, int side);
/* The k largest of all (ties: the first), none of them 0, where a sieve was too fine or too coarse,
 * or was not used. x is made. */
void weir_sieve_exact(weir_sieve *, const float *x, size_t n, size_t k, int side);
/* Of those put aside the k largest (ties: the first). */
void weir_sieve_thin(weir_sieve *, size_t k);
#endif
