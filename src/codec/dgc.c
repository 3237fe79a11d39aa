/* dgc.c - topk with the settings of Deep Gradient Compression (Lin et al. 2018), whose corrections
 * every lane has. */
#include "codec/topk.h"

static const weir_opt options[] = {WEIR_FEEDBACK("yes", "yes", "1"),
                                   WEIR_TOPK_OPTIONS("0.001", "2", "hierarchical")};

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    return weir_topk_init(self, &weir_codec_dgc, b, arena);
}

const weir_codec weir_codec_dgc = {
    .plug = {"dgc", "topk as in Deep Gradient Compression: one in a thousand, after a ramp",
             sizeof(weir_topk), options},
    .mark = 'D',
    .drop = 0.6,
    .init = init,
    WEIR_SPARSE,
};
