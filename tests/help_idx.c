/* help_idx.c - IDX files for tests. */
#include "help_idx.h"
#include "core/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char idx_dir[64];
weir_arena *idx_arena;

int idx_setup(void **unused)
{
    (void)unused;
    strcpy(idx_dir, "/tmp/weir-test-XXXXXX");
    idx_arena = weir_arena_new();
    return !mkdtemp(idx_dir) || !idx_arena;
}

int idx_teardown(void **unused)
{
    (void)unused;
    weir_arena_free(idx_arena);
    return weir_tree_remove(idx_dir) != WEIR_OK;
}

static void push32(idx_bytes *to, uint32_t x)
{
    for (int i = 24; i >= 0; i -= 8)
        to->b[to->n++] = (unsigned char)(x >> i);
}

idx_bytes idx_array(int type, int dims, const uint32_t *dim, const uint32_t *value, size_t n)
{
    idx_bytes f = {0};

    push32(&f, (uint32_t)type << 8 | (uint32_t)dims);
    for (int i = 0; i < dims; i++)
        push32(&f, dim[i]);
    for (size_t i = 0; i < n; i++)
        if (type == 8)
            f.b[f.n++] = (unsigned char)value[i];
        else
            push32(&f, value[i]);
    return f;
}

void idx_put(const char *name, const void *bytes, size_t n)
{
    char path[200];
    FILE *out;

    snprintf(path, sizeof path, "%s/%s", idx_dir, name);
    assert_non_null(out = fopen(path, "wb"));
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

void idx_text(const char *name, const char *text) { idx_put(name, text, strlen(text)); }

void idx_write(const char *name, const idx_bytes *f) { idx_put(name, f->b, f->n); }

void idx_save(const char *name, int type, int dims, const uint32_t *dim, const uint32_t *value,
              size_t n)
{
    idx_bytes f = idx_array(type, dims, dim, value, n);

    idx_write(name, &f);
}

void idx_shell(const char *format)
{
    char line[300];

    snprintf(line, sizeof line, format, idx_dir, idx_dir);
    assert_int_equal(system(line), 0);
}

uint32_t idx_ramp[24];
void idx_good(void)
{
    static const uint32_t train[] = {4, 2, 3}, test[] = {2, 2, 3}, label[] = {0, 2, 1, 3};

    for (uint32_t i = 0; i < 24; i++)
        idx_ramp[i] = i * 11 % 256;
    idx_save("train-images-idx3-ubyte", 8, 3, train, idx_ramp, 24);
    idx_save("train-labels-idx1-ubyte", 8, 1, train, label, 4);
    idx_save("t10k-images-idx3-ubyte", 8, 3, test, idx_ramp + 12, 12);
    idx_save("t10k-labels-idx1-ubyte", 8, 1, test, label + 1, 2);
}

weir_err idx_open(const char *format, int64_t batch, weir_data_use *use)
{
    char spec[300];

    snprintf(spec, sizeof spec, format, idx_dir);
    return weir_data_open(spec, &(weir_data_need){.batch = batch}, idx_arena, use);
}

void idx_refused(const char *format, weir_err code, const char *file, const char *words)
{
    weir_data_use use = {.facts.dims = 77};

    assert_int_equal(idx_open(format, 2, &use), code);
    if (!strstr(weir_why_text(), file) || !strstr(weir_why_text(), words))
        fail_msg("'%s' should name %s and say '%s'", weir_why_text(), file, words);
    assert_int_equal(use.facts.dims, 77);
}

weir_data_batch idx_get(const weir_data_use *use, weir_data_part part, uint64_t first, int n,
                        uint64_t step)
{
    uint64_t index[1024];
    weir_data_pick pick = {
        .part = part, .seed = 1, .step = step, .first = first, .index = index, .n = n};
    weir_data_batch batch;

    assert_in_range(n, 1, 1024);
    assert_true(first + (uint64_t)n <= use->facts.count[part]);
    for (int i = 0; i < n; i++)
        index[i] = first + (uint64_t)i;
    assert_int_equal(weir_data_batch_new(&use->facts, n, idx_arena, &batch), WEIR_OK);
    assert_int_equal(use->data->get(use->self, &pick, &batch), WEIR_OK);
    assert_int_equal(batch.n, n);
    return batch;
}
