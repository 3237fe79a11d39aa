/* test_netfile.c - model files: what they say, and where they are wrong. */
#include "nn/graph.h"
#include "nn/netfile.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const weir_model_input pictures = {.dims = 3,
                                          .dim = {1, 28, 28},
                                          .kind = WEIR_SCORE_CLASSES,
                                          .classes = 10};

static weir_err read_as(const char *text, size_t n, const char *sizes, const weir_model_input *in,
                        weir_arena *arena, weir_graph **g)
{
    weir_netfile_source source = {"m.net", text, n, sizes};

    return weir_graph_read(&source, in, true, arena, g);
}

/* ---- expressions ---- */

static void expressions_are_worked_out(void **state)
{
    static const weir_size size[] = {{"classes", 10}, {"width", 7}};
    static const weir_scope scope = {size, 2, 3};
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"5", 5},
                {"2+3*4", 14},
                {"(2+3)*4", 20},
                {"10-2-3", 5},
                {"classes*width/2", 35},
                {"-width+8", 1},
                {"--5", 5},
                {"%*2", 6},
                {"2147483647", INT32_MAX},
                {"7/2*2", 6},
                {"-7/2", -3}};
    static const struct {
        const char *text;
        size_t at;
    } bad[] = {{"", 0},
               {"2+", 2},
               {"2147483648", 0},
               {"4/(2-2)", 1},
               {"(1", 2},
               {"1)", 1},
               {"wide", 0},
               {"3*wid", 2},
               {"9999999999999999999", 0},
               {"9000000000000000000*9", 19},
               {"1.5", 1},
               {"2**2", 2}};
    int64_t value;
    size_t at;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(weir_expr(good[i].text, &scope, &value, &at), WEIR_OK);
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(weir_expr(bad[i].text, &scope, &value, &at), WEIR_INVALID);
        assert_int_equal(at, bad[i].at);
    }
}

static void deep_expressions_are_refused(void **state)
{
    static const weir_scope scope = {0};
    char text[10001];
    int64_t value;
    size_t at;

    (void)state;
    for (const char *c = "(-"; *c; c++) {
        memset(text, *c, sizeof text - 1);
        text[sizeof text - 1] = 0;
        assert_int_equal(weir_expr(text, &scope, &value, &at), WEIR_INVALID);
        assert_non_null(strstr(weir_why_text(), "nests"));
    }
}

/* ---- good files ---- */

static void layers_have_shapes_and_names(void **state)
{
    static const char text[] =
        "# comment\n\nsize w 8 # the width\n\tconv first out=w*2 kernel=3 pad=1 bias=no\r\n"
        "relu\nconv out=w kernel=3 stride=2\nmaxpool kernel=2\nflatten\ndense out=classes\nsoftmax";
    static const char *const names[] = {"first",    "relu1",  "conv2",   "maxpool1",
                                        "flatten1", "dense1", "softmax1"};
    weir_arena *arena = weir_arena_new();
    weir_graph *g;

    (void)state;
    assert_int_equal(read_as(text, strlen(text), NULL, &pictures, arena, &g), WEIR_OK);
    assert_int_equal(g->nodes, 7);
    for (int i = 0; i < 7; i++)
        assert_string_equal(g->node[i].name, names[i]);
    assert_int_equal(g->node[0].line, 4);
    assert_int_equal(g->node[0].col, 2);
    assert_int_equal(g->node[0].out.dim[1], 16);
    assert_int_equal(g->node[0].out.dim[2], 28);
    assert_int_equal(g->node[2].out.dim[3], 13);
    assert_int_equal(g->node[4].out.dim[1], 8 * 6 * 6);
    assert_int_equal(g->tensors, 5);
    assert_int_equal(g->params, 16 * 9 + 16 * 8 * 9 + 8 + 288 * 10 + 10);
    assert_int_equal(read_as(text, strlen(text), "w=4", &pictures, arena, &g), WEIR_OK);
    assert_int_equal(g->node[0].out.dim[1], 8);
    assert_int_equal(read_as(text, strlen(text), "w=2,w=2*3", &pictures, arena, &g), WEIR_OK);
    assert_int_equal(g->node[0].out.dim[1], 12);
    weir_arena_free(arena);
}

static void repeats_are_unrolled(void **state)
{
    static const char text[] = "size n 2\nflatten\nrepeat n\n  dense block%.up out=10*%\n  repeat "
                               "2*%-1\n    relu act%\n  end\nend\n"
                               "repeat 0\nnonsense\nend\ndense out=classes\nsoftmax\n";
    static const char *const names[] = {"flatten1", "block1.up", "act1.1", "block2.up", "act2.1",
                                        "act2.2",   "act2.3",    "dense3", "softmax1"};
    weir_arena *arena = weir_arena_new();
    weir_graph *g;

    (void)state;
    assert_int_equal(read_as(text, strlen(text), NULL, &pictures, arena, &g), WEIR_OK);
    assert_int_equal(g->nodes, 9);
    for (int i = 0; i < g->nodes; i++)
        assert_string_equal(g->node[i].name, names[i]);
    assert_int_equal(g->node[3].out.dim[1], 20);
    assert_int_equal(read_as(text, strlen(text), "n=3", &pictures, arena, &g), WEIR_OK);
    assert_int_equal(g->nodes, 9 + 1 + 5);
    weir_arena_free(arena);
}

/* ---- bad files ---- */

static const struct {
    const char *text, *where, *what;
} bad[] = {
    {"", "m.net: ", "no layer"},
    {"# nothing\n", "m.net: ", "no layer"},
    {"flatten\ndens out=3\n", "m.net:2:1: ", "no layer 'dens'; there is dense, conv"},
    {"flatten\n  dense out=3 width=4\n", "m.net:2:15: ", "no option 'width'; it has out, bias"},
    {"flatten\ndense out=3*wide\n", "m.net:2:13: ", "no size 'wide'"},
    {"flatten\ndense out=0\n", "m.net:2:11: ", "out=0"},
    {"flatten\ndense out=5000000000\n", "m.net:2:11: ", "32 bits"},
    {"flatten\ndense\n", "m.net:2:1: ", "dense needs out="},
    {"flatten\ndense out=3 bias=maybe\n", "m.net:2:18: ", "yes or no"},
    {"flatten\ndense out=3 out=4\n", "m.net:2:13: ", "already"},
    {"flatten\ndense a out\n", "m.net:2:9: ", "key=value"},
    {"flatten\ndense a out=\n", "m.net:2:9: ", "key=value"},
    {"flatten\ndense =3\n", "m.net:2:7: ", "key=value"},
    {"flatten\ndense a out=3\nrelu a\n", "m.net:3:6: ", "name a is that of line 2"},
    {"flatten\ndense relu1 out=3\nrelu\n", "m.net:3:1: ", "name relu1"},
    {"flatten\ndense 3a out=3\n", "m.net:2:7: ", "a letter"},
    {"flatten\ndense a% out=3\n", "m.net:2:7: ", "inside a repeat"},
    {"flatten\ndense out=%\n", "m.net:2:11: ", "inside a repeat"},
    {"=\n", "m.net:1:1: ", "kind of layer"},
    {"flat\x80ten\n", "m.net:1:1: ", "ASCII"},
    {"dense:x out=3\n", "m.net:1:1: ", "kind of layer"},
    {"size a\n", "m.net:1:1: ", "size NAME VALUE"},
    {"size 3a 3\n", "m.net:1:6: ", "a letter"},
    {"size a b\n", "m.net:1:8: ", "no size 'b' here; there is classes"},
    {"size a 1\nsize a 2\n", "m.net:2:6: ", "already"},
    {"size classes 1\n", "m.net:1:6: ", "what the data brings"},
    {"repeat 2\nsize a 1\nend\n", "m.net:2:1: ", "inside a repeat"},
    {"repeat 2\nrelu\n", "m.net:1:1: ", "no end"},
    {"end\n", "m.net:1:1: ", "no repeat"},
    {"bench a\nbench b\n", "m.net:2:1: ", "bench DATA"},
    {"bench\n", "m.net:1:1: ", "bench DATA"},
    {"repeat\nend\n", "m.net:1:1: ", "repeat N"},
    {"repeat 0-1\nend\n", "m.net:1:8: ", "less than 0"},
    {"repeat 2\nrelu\nend 3\n", "m.net:3:5: ", "behind end"},
    {"repeat 2\nrelu a\nend\n", "m.net:2:6: ", "put a % into it"},
    {"repeat 2000000000\nend\n", "m.net:1:8: ", "too many times"},
    {"repeat 60000\nrelu\nend\n", "m.net:2:1: ", "too many layers"},
    {"repeat 2000\nrepeat 2000\nrepeat 2000\nend\nend\nend", "m.net:3:8: ", "too many times"},
    {"flatten\ndense out=10\n", "m.net: ", "no loss"},
    {"flatten\ndense out=10\nsoftmax\nrelu\n", "m.net:4:1: ", "a loss"},
    {"flatten\ndense out=11\nsoftmax\n", "m.net:3:1: ", "10 classes, and 11 outputs"},
    {"flatten\ndense a out=784\ndense out=784 weight=b\n", "m.net:3:22: ", "no layer b above"},
    {"flatten\nrelu a\ndense out=784 weight=a\n", "m.net:3:22: ", "a has no weight"},
    {"flatten\ndense out=784 weight=input\n", "m.net:2:22: ", "input has no weight"},
    {"flatten\ndense a out=784\ndense b out=783 weight=a\n",
     "m.net:3:1: ", "b needs a weight of 783 x 784, that of a is 784 x 784"},
    {"flatten\nrelu weight=a\n", "m.net:2:6: ", "weight"},
    {"lstm out=3\n", "m.net:1:1: ", "place by place"},
    {"attention heads=3\n", "m.net:1:1: ", "three times a width"},
    {"position\n", "m.net:1:1: ", "place by place"},
    {"flatten\ndense a out=3\nadd\n", "m.net:3:1: ", "add needs from="},
    {"flatten\ndense a out=3\nadd from=b\n", "m.net:3:10: ", "no layer b above"},
    {"flatten\ndense a out=3\nadd b from=b\n", "m.net:3:12: ", "no layer b above"},
    {"flatten\ndense a out=3\nadd from=a\n", "m.net:3:10: ", "a is the line before"},
    {"flatten\nadd from=input\n", "m.net:2:1: ", "gives 784, the input gives 1 x 28 x 28"},
    {"flatten f\ndense a out=3\nadd from=f\n", "m.net:3:1: ", "gives 3, f gives 784"},
    {"flatten\nrelu a%\n", "m.net:2:6: ", "inside a repeat"},
    {"flatten\nrelu from=a%\n", "m.net:2:11: ", "no layer a% above"},
    {"flatten f\ndense a out=3\ndense out=10 from=f\nsoftmax\n",
     "m.net:2:1: ", "nobody reads the output of a"},
    {"flatten input\n", "m.net:1:1: ", "that of the data"},
    {"softmax\n", "m.net:1:1: ", "one row a sample"},
    {"flatten\nconv out=3 kernel=3\n", "m.net:2:1: ", "three dimensions"},
    {"conv out=3 kernel=29\n", "m.net:1:1: ", "does not fit"},
    {"maxpool kernel=29\n", "m.net:1:1: ", "does not fit"},
    {"maxpool kernel=3 pad=2\n", "m.net:1:1: ", "half a window"},
    {"flatten\nmaxpool kernel=3\n", "m.net:2:1: ", "three dimensions"},
    {"conv out=2147483647 kernel=1\nconv out=2147483647 kernel=3\n", "m.net:1:1: ", "larger than"},
    {"flatten\ndense out=2147483647\ndense out=2147483647\n",
     "m.net:2:1: ", "dense1.weight is empty, or larger than 274877906944 values"},
    {"flatten\ndense out=3 bias=2\n", "m.net:2:18: ", "bias=2: yes or no, or 1 or 0"},
    {"flatten\ndense out=3 bias=0-1\n", "m.net:2:18: ", "bias=-1: yes or no, or 1 or 0"},
};

static void errors_name_line_and_column(void **state)
{
    weir_graph *g = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_arena *arena = weir_arena_new();
        assert_int_equal(read_as(bad[i].text, strlen(bad[i].text), NULL, &pictures, arena, &g),
                         WEIR_INVALID);
        if (strncmp(weir_why_text(), bad[i].where, strlen(bad[i].where)) ||
            !strstr(weir_why_text(), bad[i].what))
            fail_msg("of '%s' it says '%s', not '%s...%s'", bad[i].text, weir_why_text(),
                     bad[i].where, bad[i].what);
        weir_arena_free(arena);
    }
    assert_null(g);
}

static void names_join_layers(void **state)
{
    static const char text[] =
        "flatten\ndense a out=8\nrepeat 2\nmark b%.in\nrelu\ndense out=8\nadd b%.out "
        "from=b%.in\nend\n"
        "dense out=8 from=input\nadd from=a\ndense out=classes from=b2.out\nsoftmax\n";
    static const weir_model_input rows = {.dims = 1,
                                          .dim = {8},
                                          .kind = WEIR_SCORE_CLASSES,
                                          .classes = 10};
    static const struct {
        int ins, from[2], readers, last;
    } want[] = {{1, {-1, 0}, 1, 1}, {1, {0, 0}, 1, 2}, {1, {1, 0}, 2, 5}};
    weir_arena *arena = weir_arena_new();
    weir_graph *g = NULL;

    (void)state;
    /* the join of line 10 is read by nobody */
    assert_int_equal(read_as(text, strlen(text), NULL, &rows, arena, &g), WEIR_INVALID);
    assert_non_null(strstr(weir_why_text(), "m.net:10:1: nobody reads the output of add3"));
    size_t n = (size_t)(strstr(text, "dense out=8 from=input") - text);
    weir_netfile_source part = {"m.net", text, n, NULL};
    assert_int_equal(weir_graph_read(&part, &rows, false, arena, &g), WEIR_OK);
    assert_int_equal(g->nodes, 10);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(g->node[i].ins, want[i].ins);
        assert_int_equal(g->node[i].from[0], want[i].from[0]);
        assert_int_equal(g->node[i].readers, want[i].readers);
        assert_int_equal(g->node[i].last, want[i].last);
    }
    assert_string_equal(g->node[9].name, "b2.out");
    assert_int_equal(g->node[9].ins, 2);
    assert_int_equal(g->node[9].from[0], 8);
    assert_int_equal(g->node[9].from[1], 6);
    assert_true(g->readers == 1 && g->last == 0);
    weir_arena_free(arena);
}

static void zero_bytes_are_refused(void **state)
{
    weir_arena *arena = weir_arena_new();
    weir_graph *g;

    (void)state;
    assert_int_equal(read_as("relu\nre\0lu\n", 11, NULL, &pictures, arena, &g), WEIR_INVALID);
    assert_non_null(strstr(weir_why_text(), "m.net:2:3: "));
    weir_arena_free(arena);
}

static void too_many_parameters_are_refused(void **state)
{
    static const char text[] =
        "size wide 20000\nflatten\nrepeat 400\ndense out=wide\nend\ndense out=classes\nsoftmax\n";
    weir_arena *arena = weir_arena_new();
    weir_graph *g;

    (void)state;
    /* 640 GB of weights, and shapes cost nothing */
    assert_int_equal(read_as(text, strlen(text), NULL, &pictures, arena, &g), WEIR_OK);
    assert_int_equal(read_as(text, strlen(text), "wide=40000", &pictures, arena, &g), WEIR_USAGE);
    assert_non_null(strstr(weir_why_text(), "too many parameters: over 274877906944"));
    weir_arena_free(arena);
}

/* Sizes that the user gives are told as the user's; a file that is wrong anyway as the file's. */
static void sizes_of_the_user_are_the_users(void **state)
{
    static const char text[] =
        "size wide 8\nsize depth 1\nflatten\nrepeat depth\ndense out=3*wide\n"
        "end\ndense out=classes\nsoftmax\n";
    static const struct {
        const char *sizes, *what;
    } given[] = {{"wide=0",
                  "the model with wide=0: m.net:5:11: dense: out=0: a value from 1 to 2147483647"},
                 {"wide=-5",
                  "m.net:5:11: dense: out=-15: a value from 1 to 2147483647 was expected"},
                 {"wide=2-2", "out=0"},
                 {"wide=1000000000", "m.net:5:11: the value does not fit into 32 bits"},
                 {"wide=500000000", "dense1.weight is empty, or larger than 274877906944 values"},
                 {"depth=-1", "m.net:4:8: a repeat cannot run less than 0 times"},
                 {"depth=5000", "the model has too many layers"},
                 {"wide=3,depth=-2", "the model with wide=3,depth=-2: "}};
    weir_arena *arena = weir_arena_new();
    weir_graph *g = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        assert_int_equal(read_as(text, strlen(text), given[i].sizes, &pictures, arena, &g),
                         WEIR_USAGE);
        if (!strstr(weir_why_text(), given[i].what))
            fail_msg("of %s it says '%s', not '%s'", given[i].sizes, weir_why_text(),
                     given[i].what);
    }
    assert_int_equal(read_as("size a 3\nflatten\ndense out=0\n", 29, "a=4", &pictures, arena, &g),
                     WEIR_INVALID);
    assert_int_equal(strncmp(weir_why_text(), "m.net:3:11: ", 12), 0);
    assert_null(g);
    weir_arena_free(arena);
}

static void data_that_does_not_fit_is_refused(void **state)
{
    static const char text[] = "flatten\ndense out=classes\nsoftmax\n";
    weir_model_input in = pictures;
    weir_arena *arena = weir_arena_new();
    weir_graph *g;

    (void)state;
    assert_int_equal(read_as("flatten\nmse\n", 12, NULL, &in, arena, &g), WEIR_MISFIT);
    assert_non_null(
        strstr(weir_why_text(), "m.net:2:1: mse scores values, and the data gives classes"));
    assert_int_equal(read_as("embedding out=3\n", 16, NULL, &in, arena, &g), WEIR_MISFIT);
    assert_non_null(strstr(weir_why_text(), "m.net:1:1: embedding reads tokens"));
    in.kind = WEIR_SCORE_VALUES;
    assert_int_equal(read_as(text, strlen(text), NULL, &in, arena, &g), WEIR_MISFIT);
    assert_non_null(
        strstr(weir_why_text(),
               "m.net:3:1: softmax scores classes or tokens, and the data gives values"));
    in.kind = WEIR_SCORE_TOKENS;
    assert_int_equal(read_as(text, strlen(text), NULL, &in, arena, &g), WEIR_MISFIT);
    in.tokens = true;
    assert_int_equal(read_as(text, strlen(text), NULL, &in, arena, &g), WEIR_MISFIT);
    assert_non_null(
        strstr(weir_why_text(), "m.net:1:1: the data gives tokens, and flatten reads numbers"));
    in = pictures;
    in.dims = 5;
    assert_int_equal(read_as(text, strlen(text), NULL, &in, arena, &g), WEIR_MISFIT);
    in = pictures;
    in.classes = 0;
    assert_int_equal(read_as(text, strlen(text), NULL, &in, arena, &g), WEIR_MISFIT);
    weir_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_are_worked_out),
        cmocka_unit_test(deep_expressions_are_refused),
        cmocka_unit_test(layers_have_shapes_and_names),
        cmocka_unit_test(repeats_are_unrolled),
        cmocka_unit_test(names_join_layers),
        cmocka_unit_test(errors_name_line_and_column),
        cmocka_unit_test(zero_bytes_are_refused),
        cmocka_unit_test(too_many_parameters_are_refused),
        cmocka_unit_test(sizes_of_the_user_are_the_users),
        cmocka_unit_test(data_that_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
