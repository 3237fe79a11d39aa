/* lines.h - what a rank prints, on its way through the launcher. */
#ifndef WEIR_NET_LINES_H
#define WEIR_NET_LINES_H
#include <stdbool.h>
#include <stddef.h>

/* A line that begins so is a rank's fatal error: it is held back, because only the first failure of
 * a run is shown. */
#define WEIR_LINES_ERROR "weir: error: "
enum { WEIR_LINES_LAST = 10, WEIR_LINE_MAX = 2048 };

typedef struct weir_lines {
    int from, to;    /* a pipe's end, not blocking (-1: closed); one of our own descriptors */
    char prefix[16]; /* "[2] ": whole lines pass, behind it. "": every byte passes at once */
    char line[WEIR_LINE_MAX];
    size_t len, shown;               /* of the line that is being read */
    char error[WEIR_LINE_MAX];       /* the last fatal error, without its beginning; "" */
    char last[WEIR_LINES_LAST][256]; /* other lines, in a ring */
    int count;
} weir_lines;

/* Passes on what is there; closes at the end of file. */
void weir_lines_read(weir_lines *);
/* Passes on what is there and what was held for want of an end of line, and closes. */
void weir_lines_close(weir_lines *);
#endif
