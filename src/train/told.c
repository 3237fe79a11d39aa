/* told.c - see told.h. */
#include "train/told.h"
#include "core/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAIL = WEIR_TOLD_LINES * 2048 };

static void read_line(const char *line, size_t n, weir_told *told)
{
    weir_json *e;
    const char *event;

    if (weir_json_parse(line, n, "a line of the log", &e)) /* torn, or the end of a longer one */
        return;
    if (weir_json_get_text(e, "event", &event)) {
        told->any = true;
        if (!strcmp(event, "step"))
            weir_json_get_int(e, "step", &told->step);
        if (!strcmp(event, "member"))
            weir_json_get_int(e, "generation", &told->generation);
    }
    weir_json_free(e);
}

weir_told weir_told_read(const char *path)
{
    weir_told told = {0};
    FILE *f = path ? fopen(path, "re") : NULL;
    char *text = f ? malloc(TAIL) : NULL;
    size_t n = 0;

    if (text) {
        if (fseek(f, -TAIL, SEEK_END)) /* it is shorter */
            rewind(f);
        n = fread(text, 1, TAIL, f);
    }
    for (char *at = text, *end; n; n -= (size_t)(end - at), at = end) {
        char *newline = memchr(at, '\n', n);
        end = newline ? newline + 1 : at + n;
        read_line(at, (size_t)(end - at), &told);
    }
    free(text);
    if (f)
        fclose(f);
    return told;
}
