/* table.h - a table of numbers as comma-separated text: a row a line, as many columns in each. The
 * first line may be a header; empty lines are passed over; a field may stand in quotes. */
#ifndef WEIR_DATA_TABLE_H
#define WEIR_DATA_TABLE_H
#include "core/err.h"

/* auto: a first line without a number is one */
typedef enum {
    WEIR_TABLE_HEADER_AUTO,
    WEIR_TABLE_HEADER_YES,
    WEIR_TABLE_HEADER_NO
} weir_table_header;

typedef struct weir_table {
    const char *name; /* the file's, for messages */
    uint64_t rows, cols;
    double *value;  /* row by row; malloc'ed */
    uint64_t *line; /* where in the file each row is, from 1; malloc'ed */
} weir_table;

/* Reads bytes that may be anything. WEIR_INVALID, with line and column: a field that is empty,
 * missing or one too many, not a number, or beyond 1e100; fewer than 2 columns; no rows. */
weir_err weir_table_parse(const char *name, const char *text, size_t n, weir_table_header,
                          weir_table *);
void weir_table_free(weir_table *);
#endif
