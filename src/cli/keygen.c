/* keygen.c - weir keygen [FILE]. */
#include "cli/cli.h"
#include "net/key.h"
#include <stdio.h>

int cli_keygen(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "weir.key";
    weir_err err;

    if (argc > 2 || path[0] == '-')
        return cli_end(weir_fail(WEIR_USAGE, "'%s' was not expected: weir keygen [FILE]",
                                 argc > 2 ? argv[2] : path));
    if ((err = weir_key_make(path)))
        return cli_end(err);
    printf("A cluster key is in %s. Copy it to every machine, readable by you alone:\n"
           "  scp -p %s HOST:    and there, if need be: chmod 600 %s\n"
           "and start every rank with --key FILE, or with the file's path in WEIR_KEY. Whoever has "
           "the key can join your runs.\n",
           path, path, path);
    return 0;
}
