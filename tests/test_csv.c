/* test_csv.c - tables: rows to parts, columns to mean 0 and deviation 1, and every way in which a
 * table is none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "help_idx.h"

enum { ROWS = 40, COLS = 3 };

static double cell(int row, int col)
{
    return col == 0 ? row * 1.5 - 7 : col == 1 ? (row * 13 % 17) * 1e3 : row * row * 0.25 + 100;
}

static void write_table(const char *name, const char *head, const char *line_end)
{
    char text[4000];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", head);

    for (int r = 0; r < ROWS; r++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%.17g,%.17g,%.17g%s", cell(r, 0),
                              cell(r, 1), cell(r, 2), line_end);
    idx_text(name, text);
}

/* Which row of the table each sample is, the training part's first: column 0 rises with the row, so
 * that its rank tells. */
static void find_rows(const weir_data_use *use, int row[ROWS])
{
    float first[ROWS];
    int met[ROWS] = {0}, n = 0;

    for (int part = 0; part < WEIR_DATA_PARTS; part++) {
        weir_data_batch b = idx_get(use, (weir_data_part)part, 0, (int)use->facts.count[part], 0);
        for (int i = 0; i < b.n; i++)
            first[n++] = b.x[2 * i];
    }
    assert_int_equal(n, ROWS);
    for (int i = 0; i < ROWS; i++) {
        row[i] = 0;
        for (int k = 0; k < ROWS; k++)
            row[i] += first[k] < first[i];
        met[row[i]]++;
    }
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(met[i], 1); /* every row is in one part, once */
}

/* The scale leads back to the target's own unit, in both parts. */
static void check_target(const weir_data_use *use, const int row[ROWS])
{
    int train = (int)use->facts.count[WEIR_DATA_TRAIN];
    double mean = 0, squares = 0;

    for (int i = 0; i < train; i++)
        mean += cell(row[i], 2) / train;
    for (int i = 0; i < train; i++)
        squares += (cell(row[i], 2) - mean) * (cell(row[i], 2) - mean);
    assert_float_equal(use->facts.value_scale, sqrt(squares / train), 1e-9);
    for (int part = 0, at = 0; part < WEIR_DATA_PARTS; part++) {
        weir_data_batch b = idx_get(use, (weir_data_part)part, 0, (int)use->facts.count[part], 0);
        for (int i = 0; i < b.n; i++, at++)
            /* rounded to a float once, before it is scaled back */
            assert_float_equal(b.value[i] * use->facts.value_scale + mean, cell(row[at], 2),
                               0x1p-23 * (fabs(cell(row[at], 2)) + fabs(mean)));
    }
}

static void columns_are_standardised_by_the_training_rows(void **unused)
{
    weir_data_use use;
    weir_data_batch b;
    int row[ROWS];
    (void)unused;

    write_table("t.csv", "a,b,y\n", "\n");
    assert_int_equal(idx_open("csv:%s/t.csv", 0, &use), WEIR_OK);
    assert_true(use.facts.target == WEIR_TARGET_VALUES && use.facts.classes == 1 &&
                use.facts.dims == 1 && use.facts.dim[0] == 2);
    assert_true(use.facts.count[WEIR_DATA_TRAIN] == 36 && use.facts.count[WEIR_DATA_TEST] == 4);
    find_rows(&use, row);
    check_target(&use, row);
    b = idx_get(&use, WEIR_DATA_TRAIN, 0, 36, 0);
    for (int col = 0; col < COLS; col++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < 36; i++) {
            double x = col < 2 ? b.x[2 * i + col] : b.value[i];
            sum += x, squares += x * x;
        }
        /* of 36 numbers none is beyond 6 deviations, and each is a float: its last bit */
        assert_float_equal(sum / 36, 0, 6 * 0x1p-24);
        assert_float_equal(squares / 36, 1, 2 * 0x1p-24);
    }
    weir_data_close(&use);
}

static void the_seed_chooses_the_test_rows(void **unused)
{
    static const char *const spec[] = {"csv:%s/t.csv,test=0.5", "csv:%s/t.csv,test=0.5",
                                       "csv:%s/t.csv,test=0.5,seed=1"};
    weir_data_use use;
    int row[3][ROWS], same = 0;
    (void)unused;

    write_table("t.csv", "", "\n");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(idx_open(spec[i], 100 * i, &use), WEIR_OK);
        assert_int_equal(use.facts.count[WEIR_DATA_TEST], 20);
        find_rows(&use, row[i]);
        check_target(&use, row[i]);
        weir_data_close(&use);
    }
    assert_memory_equal(row[0], row[1], sizeof row[0]);
    for (int i = 0; i < ROWS; i++)
        same += row[0][i] == row[2][i];
    assert_true(same < 10);
    assert_int_equal(idx_open("csv:%s/t.csv,test=1e-6", 0, &use), WEIR_OK);
    assert_int_equal(use.facts.count[WEIR_DATA_TEST], 1); /* never none */
    weir_data_close(&use);
}

/* A header or none, \r\n, blank lines, spaces, quotes, gzip: the same numbers. */
static void the_same_table_in_other_clothes(void **unused)
{
    static const char *const head[] = {"", "a,b,y\n", "\"a, the first\",\"b \"\"x\"\"\", y \r\n",
                                       "\n \n", "\357\273\277a,b,y\n"};
    weir_data_use plain, use;
    (void)unused;

    write_table("t.csv", "", "\n");
    assert_int_equal(idx_open("csv:%s/t.csv", 0, &plain), WEIR_OK);
    weir_data_batch want = idx_get(&plain, WEIR_DATA_TRAIN, 0, 36, 0);
    for (int i = 0; i < 10; i++) {
        write_table("u.csv", head[i % 5], i < 5 ? " \r\n\n" : "\n");
        if (i == 9)
            idx_shell("gzip %s/u.csv");
        assert_int_equal(idx_open(i == 9 ? "csv:%s/u.csv.gz" : "csv:%s/u.csv", 0, &use), WEIR_OK);
        weir_data_batch got = idx_get(&use, WEIR_DATA_TRAIN, 0, 36, 0);
        assert_memory_equal(got.x, want.x, 72 * sizeof(float));
        assert_memory_equal(got.value, want.value, 36 * sizeof(float));
        weir_data_close(&use);
    }
    weir_data_close(&plain);
    idx_text("n.csv", "1,2,3\n4,5,6\n7,8,9"); /* numbers as names; no line's end at the end */
    assert_int_equal(idx_open("csv:%s/n.csv,header=yes", 0, &use), WEIR_OK);
    assert_int_equal(use.facts.count[WEIR_DATA_TRAIN] + use.facts.count[WEIR_DATA_TEST], 2);
    weir_data_close(&use);
    assert_int_equal(idx_open("csv:%s/n.csv", 0, &use), WEIR_OK);
    assert_int_equal(use.facts.count[WEIR_DATA_TRAIN] + use.facts.count[WEIR_DATA_TEST], 3);
    weir_data_close(&use);
}

static void equal_columns_become_zero(void **unused)
{
    weir_data_use use;
    (void)unused;

    idx_text("t.csv", "5,1,2\n5,2,2\n5,3,2\n5,4,2\n");
    assert_int_equal(idx_open("csv:%s/t.csv", 0, &use), WEIR_OK);
    weir_data_batch b = idx_get(&use, WEIR_DATA_TRAIN, 0, 3, 0);
    for (int i = 0; i < 3; i++)
        assert_true(b.x[2 * i] == 0 && b.value[i] == 0);
    assert_true(use.facts.value_scale == 1);
    weir_data_close(&use);
}

static void what_is_no_table_is_refused_with_its_place(void **unused)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "it is empty"},
        {"\n\n \n", "it is empty"},
        {"a,b\n", "a header and no rows"},
        {"1,2\n", "1 row was found"},
        {"x\n1\n2\n", "line 1: 1 column was found"},
        {"a,b,y\n1,2,3\n1,abc,3\n", "line 3, column 2: 'abc' was found; a number was expected"},
        {"a,b,y\n1,2,3\n\n1,,3\n", "line 4, column 2: the field is empty"},
        {"1,2,3\n1,2,\n", "line 2, column 3: the field is empty"},
        {"1,2,3\n1,2\n", "line 2, column 3: it is missing; 3 columns were expected"},
        {"1,2,3\n1,2,3,4\n", "line 2, column 4: it is one too many"},
        {"1,x,3\n1,2,3\n", "line 1, column 2: 'x' was found; a number was expected (header=yes"},
        {"1,2\n1,nan\n", "line 2, column 2: 'nan'"},
        {"1,2\n1,inf\n", "line 2, column 2: 'inf'"},
        {"1,2\n1,0x10\n", "line 2, column 2: '0x10'"},
        {"1,2\n1,1e999\n", "line 2, column 2: inf is too large"},
        {"1,2\n1,-1e101\n", "line 2, column 2: -1e+101 is too large"},
        {"1,2\n1,1e\n", "line 2, column 2: '1e'"},
        {"1,2\n1,1 2\n", "line 2, column 2: '1 2'"},
        {"1,2\n1,\"2\n", "line 2, column 2: '\"2'"},
        {"1,2\n1,1111111111111111111111111111111111111111111111111111111111111111\n",
         "line 2, column 2: '1111"},
    };
    (void)unused;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        idx_text("t.csv", bad[i].text);
        idx_refused("csv:%s/t.csv", WEIR_INVALID, "t.csv", bad[i].words);
    }
    idx_put("t.csv", "1,2\n1,2\0\n3,4\n", 13);
    idx_refused("csv:%s/t.csv", WEIR_INVALID, "t.csv", "line 2, column 2");
    idx_text("t.csv", "a,b\nc,d\n1,2\n3,4\n");
    idx_refused("csv:%s/t.csv", WEIR_INVALID, "t.csv", "line 2, column 1: 'c'");
    idx_text("t.csv", "a,b\n1,2\n3,4\n");
    idx_refused("csv:%s/t.csv,header=no", WEIR_INVALID, "t.csv", "line 1, column 1: 'a'");
    idx_refused("csv:%s/nowhere.csv", WEIR_INVALID, "nowhere.csv", "cannot be read");
    idx_refused("csv:%s", WEIR_INVALID, idx_dir, "not a regular file");
    idx_refused("csv:%s/t.csv,test=0", WEIR_USAGE, "test", "0");
    idx_refused("csv", WEIR_USAGE, "csv:FILE", "a file");
}

/* Training rows that hardly differ, and a test row far away. */
static void a_row_too_far_out_is_refused(void **unused)
{
    char text[400] = "";
    (void)unused;

    for (int far = 0; far < 10; far++) { /* one of them is the test row */
        text[0] = 0;
        for (int i = 0; i < 10; i++)
            strcat(text, i == far ? "1,1\n" : i % 2 ? "1e-40,1\n" : "0,1\n");
        idx_text("t.csv", text);
        weir_data_use use;
        if (idx_open("csv:%s/t.csv", 0, &use)) {
            char line[32];
            snprintf(line, sizeof line, "line %d, column 1", far + 1);
            idx_refused("csv:%s/t.csv", WEIR_INVALID, line, "too far from the mean");
            return;
        }
        weir_data_close(&use);
    }
    fail_msg("no row was the test row");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, idx_setup, idx_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(columns_are_standardised_by_the_training_rows),
        CASE(the_seed_chooses_the_test_rows),
        CASE(the_same_table_in_other_clothes),
        CASE(equal_columns_become_zero),
        CASE(what_is_no_table_is_refused_with_its_place),
        CASE(a_row_too_far_out_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
