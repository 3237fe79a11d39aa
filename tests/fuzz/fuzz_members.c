/* fuzz_members.c - what members say to each other about the next generation, as a hostile peer
 * would send it: refused, or such that it can be written and read again. */
#include "net/member_message.h"
#include <stdlib.h>
#include <string.h>

static void insist(bool right)
{
    if (!right)
        abort();
}

static void check_list(const weir_members *l)
{
    bool source = !l->count;

    insist(l->joined <= l->count);
    for (int i = 0; i < l->count; i++) {
        insist(l->member[i] >= 0 && l->member[i] < l->next_id);
        insist(!i || l->member[i] > l->member[i - 1]);
        insist(l->behind[i] == 0 || l->behind[i] == 1);
        source |= l->member[i] == l->source;
    }
    insist(source);
    for (int i = 0; i < l->joined; i++)
        insist(strnlen(l->guest[i].entry.host, sizeof l->guest[i].entry.host) <
               sizeof l->guest[i].entry.host);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    weir_arena *arena = weir_arena_new();
    weir_member_message m, again;
    weir_members copy;
    size_t len;
    void *text;

    insist(arena != NULL);
    if (weir_member_read(bytes, n, arena, &m)) {
        check_list(&m.list);
        insist(weir_members_copy(&m.list, arena, &copy));
        insist(weir_members_hash(&copy) == weir_members_hash(&m.list));
        insist((text = weir_member_write(&m, &len)) && len == n);
        insist(weir_member_read(text, len, arena, &again));
        insist(weir_members_hash(&again.list) == weir_members_hash(&m.list));
        free(text);
    }
    weir_arena_free(arena);
    return 0;
}
