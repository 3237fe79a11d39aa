/* post.h - letters between peers: everybody sends one to everybody for each lane and step, and
 * nobody waits for an answer.
 *
 * Letters of one member come in the order of steps, and of lanes within a step. A member is held
 * back by what it has to wait for (weir_post_wait) to be at most `bound` steps ahead of what it has
 * had from anybody, so of anybody's letters at most 2 bound + 2 steps' can be on their way or lie
 * unread: a receive is posted for each of them, and a send never waits for its receiver's steps.
 * What is sent lies in memory made at set-up, bound + 1 steps of it; what comes is net's, lent. All
 * of it runs on the comm task. */
#ifndef WEIR_EXCHANGE_POST_H
#define WEIR_EXCHANGE_POST_H
#include "net/net.h"

typedef struct weir_post weir_post;

typedef struct weir_letter {
    int from, lane; /* from: a member's place in the group */
    uint64_t step;
    const void *data; /* NULL: a size without content (dry) */
    size_t len;
} weir_letter;

/* `most`: the bytes that a letter of each lane may have. Posts nothing yet. */
weir_err weir_post_make(weir_group *, const size_t *most, int lanes, int bound, weir_arena *,
                        weir_post **);
/* From this step on letters are expected of everybody. */
void weir_post_open(weir_post *, uint64_t step);
bool weir_post_is_open(const weir_post *);

/* Where this member's letter is written. The place of step s is free once weir_post_free(s) has
 * said so. */
void *weir_post_place(weir_post *, uint64_t step, int lane);
/* It goes to everybody else, and stays where it is, unchanged, until its place is free again. */
void weir_post_send(weir_post *, uint64_t step, int lane, size_t len);
/* what was sent, as others get it */
weir_letter weir_post_own(const weir_post *, uint64_t step, int lane);
/* Waits until what lies in the place of this step's letters has left. [blocks] */
weir_err weir_post_free(weir_post *, uint64_t step);

/* Waits until all letters up to this step are here; an error says whose are not. [blocks] */
weir_err weir_post_wait(weir_post *, uint64_t step);
/* The next letter of this member, if it has come and is of no later step; *taken tells. It is lent
 * until weir_post_done, which comes before the next take. */
weir_err weir_post_take(weir_post *, int member, uint64_t latest, weir_letter *, bool *taken);
void weir_post_done(weir_post *, const weir_letter *);
/* How many steps the last member is behind this one, which has made all up to `step`: letters taken
 * count. */
int weir_post_apart(const weir_post *, uint64_t step);
/* Nothing is in flight any more, and all memory is ours: letters not taken are gone. */
void weir_post_close(weir_post *);
#endif
