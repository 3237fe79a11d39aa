/* guess.c - which word may have been meant, where one is not known: letters left out, put in, taken
 * for another, or swapped. */
#include "cli/cli.h"
#include <stdlib.h>
#include <string.h>

enum { LETTERS = 32, SLIPS = 2 };

static int least(int a, int b, int c)
{
    a = a < b ? a : b;
    return a < c ? a : c;
}

/* How many slips make `b` of `a`: the optimal string alignment distance. Long words are far from
 * all others. */
static int distance(const char *a, const char *b)
{
    int d[LETTERS + 1][LETTERS + 1], n = (int)strlen(a), m = (int)strlen(b);

    if (n > LETTERS || m > LETTERS)
        return LETTERS;
    for (int i = 0; i <= n; i++)
        for (int k = 0; k <= m; k++) {
            d[i][k] = i ? i : k;
            if (!i || !k)
                continue;
            d[i][k] =
                least(d[i - 1][k] + 1, d[i][k - 1] + 1, d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                d[i][k] = least(d[i][k], d[i - 2][k - 2] + 1, d[i][k]);
        }
    return d[n][m];
}

void cli_guess_try(cli_guess *g, const char *known)
{
    int slips = distance(g->word, known), most = strlen(g->word) < 5 ? 1 : SLIPS;

    if (slips > most || (g->best && slips >= g->apart))
        return;
    g->best = known;
    g->apart = slips;
}

weir_err cli_no_command(const char *name)
{
    cli_guess guess = {.word = name};

    if (name[0] == '-')
        return weir_fail(WEIR_USAGE, "%s: options stand behind a command, as in weir train %s",
                         name, name);
    for (const cli_command *c = cli_commands; c->name; c++)
        cli_guess_try(&guess, c->name);
    if (guess.best)
        return weir_fail(WEIR_USAGE, "there is no command '%s'; is it %s? weir help has all", name,
                         guess.best);
    return weir_fail(WEIR_USAGE, "there is no command '%s': try weir help", name);
}
