/* JSON from files: parsed and walked, or refused; what we write of it is read again. */
#include <stdlib.h>
#include <string.h>
#include "core/json.h"

static weir_err look(void *depth, const char *key, const weir_json *value)
{
    int next = *(int *)depth + 1;
    const char *text;
    int64_t i;
    double x;

    (void)key;
    for (size_t k = 0; k <= weir_json_length(value); k++)
        weir_json_int_at(value, k, &i);
    weir_json_get_text(value, "a", &text);
    weir_json_get_real(value, "a", &x);
    return weir_json_each(value, look, &next);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    weir_json *j = NULL, *again = NULL;
    int depth = 0;

    if (weir_json_parse((const char *)bytes, n, "fuzz", &j)) {
        if (j || !weir_why_text()[0])
            abort();
        return 0;
    }
    weir_json_each(j, look, &depth);
    char *text = weir_json_text(j);
    if (!text || weir_json_parse(text, strlen(text), "again", &again))
        abort();
    free(text);
    weir_json_free(j);
    weir_json_free(again);
    return 0;
}
