/* fuzz_csv.c - any bytes as a table, with the header that the first byte says: what is let through
 * is finite numbers, row by row. */
#include "data/table.h"
#include "fuzz.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    weir_table t;
    char *text;

    if (!n)
        return 0;
    text = copy(data + 1, n - 1);
    if (!weir_table_parse("table", text, n - 1, (weir_table_header)(data[0] % 3), &t)) {
        check(t.rows > 0 && t.cols > 1);
        for (uint64_t i = 0; i < t.rows * t.cols; i++)
            check(fabs(t.value[i]) <= 1e100);
        for (uint64_t i = 0; i < t.rows; i++)
            check(t.line[i] > (i ? t.line[i - 1] : 0));
        weir_table_free(&t);
    }
    free(text);
    return 0;
}
