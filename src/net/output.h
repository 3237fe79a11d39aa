/* output.h - what a rank prints, on its way through the launcher. */
#ifndef WEIR_NET_OUTPUT_H
#define WEIR_NET_OUTPUT_H
#include <stdbool.h>
#include <stddef.h>

/* A line that begins so is a rank's fatal error: it is held back, because only the first failure of
 * a run is shown. */
#define WEIR_OUTPUT_ERROR "weir: error: "
enum { WEIR_OUTPUT_LAST = 10, WEIR_OUTPUT_LINE = 2048 };

typedef struct weir_output {
    int from, to;    /* a pipe's end, not blocking (-1: closed); one of our own descriptors */
    char prefix[16]; /* "[2] ": whole lines pass, behind it. "": every byte passes at once */
    char line[WEIR_OUTPUT_LINE];
    size_t len, shown;                /* of the line that is being read */
    char error[WEIR_OUTPUT_LINE];     /* the last fatal error, without its beginning; "" */
    char last[WEIR_OUTPUT_LAST][256]; /* other lines, in a ring */
    int count;
} weir_output;

/* Passes on what is there; closes at the end of file. */
void weir_output_read(weir_output *);
/* Passes on what is there and what was held for want of an end of line, and closes. */
void weir_output_close(weir_output *);
#endif
