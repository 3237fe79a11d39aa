/* state.c - names of fields, put together from the outside in. */
#include "core/state.h"
#include <stdio.h>
#include <string.h>

static weir_err full_name(weir_io *io, const char *name, char *full, size_t room)
{
    /* weir_io_in had no room: two names could become one */
    bool cut = strlen(io->prefix) == sizeof io->prefix - 1;

    if (cut || (size_t)snprintf(full, room, "%s%s", io->prefix, name) >= room)
        return weir_fail(WEIR_FAILED, "the name of a state field is too long: %s%s", io->prefix,
                         name);
    return WEIR_OK;
}

weir_err weir_io_range(weir_io *io, const char *name, const weir_io_piece *p)
{
    char full[256];

    WEIR_TRY(full_name(io, name, full, sizeof full));
    if (p->at > p->whole || p->n > p->whole - p->at)
        return weir_fail(WEIR_FAILED,
                         "state field %s: %zu floats from place %zu do not fit in its %zu", full,
                         p->n, p->at, p->whole);
    return io->range(io, full, p);
}

weir_err weir_io_floats(weir_io *io, const char *name, float *x, size_t n, weir_keep keep)
{
    return weir_io_range(io, name, &(weir_io_piece){.x = x, .n = n, .whole = n, .keep = keep});
}

weir_err weir_io_u64(weir_io *io, const char *name, uint64_t *value, weir_keep keep)
{
    char full[256];

    WEIR_TRY(full_name(io, name, full, sizeof full));
    return io->u64(io, full, value, 1, keep);
}

size_t weir_io_in(weir_io *io, const char *part)
{
    size_t mark = strlen(io->prefix);

    snprintf(io->prefix + mark, sizeof io->prefix - mark, "%s.", part);
    return mark;
}

void weir_io_out(weir_io *io, size_t mark) { io->prefix[mark] = 0; }
