/* help_case.c - one case of a test program alone: TEST_CASE=NAME (with * and ?) build/.../test_x.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* before main, so that no program has to ask for it */
__attribute__((constructor)) static void choose_case(void)
{
    const char *name = getenv("TEST_CASE");

    if (name && *name)
        cmocka_set_test_filter(name);
}
