/* augment.h - a training picture seen a little differently each time: shifted by up to 4 pixels
 * each way, as a random crop of the picture in a frame of zeros (the mean, once standardised), and
 * mirrored every other time. Which way depends on (seed, step, global sample) alone, never on the
 * worker. */
#ifndef WEIR_DATA_AUGMENT_H
#define WEIR_DATA_AUGMENT_H
#include "data/data.h"

/* Sample i of the pick, in place: dim is channels, height, width. */
void weir_augment(float *x, const int64_t dim[3], const weir_data_pick *, int i);
#endif
