/* layers.c - the table of kinds of layers. */
#include "nn/layer.h"

static const weir_plug *const table[] = {
#define X(name) &weir_layer_##name.plug,
#include "nn/list.h"
#undef X
    NULL};

const weir_plugs weir_layers = table;
