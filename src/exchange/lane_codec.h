/* lane_codec.h - the codecs that a lane may go by, its candidates: most lanes have one, those under
 * `auto` several, of which the lane points to one. */
#ifndef WEIR_EXCHANGE_LANE_CODEC_H
#define WEIR_EXCHANGE_LANE_CODEC_H
#include "codec/codec.h"
#include "exchange/stripes.h"

typedef struct weir_lane_codec {
    const weir_codec *kind;
    const char *spec;              /* as the user wrote it */
    void *self;                    /* its private state for this bucket */
    const weir_feedback *feedback; /* the first thing in that; NULL: floats as they are */
    weir_stripes stripes;
} weir_lane_codec;

/* Finds the candidates that a spec names; the lane goes by the first. Then, when the lane has its
 * memory: makes them ready. */
weir_err weir_lane_codecs_make(struct weir_lane *, const char *spec, weir_arena *);
weir_err weir_lane_codecs_init(struct weir_lane *, weir_arena *);
/* From the next step on the lane goes by this one. What the last one's owner held back waits with
 * the rest of what this worker holds back. Between steps. */
void weir_lane_choose(struct weir_lane *, int candidate);
#endif
