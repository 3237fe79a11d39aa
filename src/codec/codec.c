/* codec.c - the table. */
#include "codec/codec.h"

#define X(name) &weir_codec_##name.plug,
static const weir_plug *const table[] = {
#include "codec/list.h"
    NULL};
#undef X
weir_plugs weir_codecs = table;
