/* Files that begin as gzip, of any content: unpacked within the limit, or refused. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "core/file.h"

enum { LIMIT = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const unsigned char magic[2] = {0x1f, 0x8b};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    char path[64], *got = NULL;
    size_t len = 0;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || write(fd, magic, 2) != 2 || write(fd, bytes, n) != (ssize_t)n)
        abort();
    if (weir_file_read(path, LIMIT, &got, &len)) {
        if (got || !weir_why_text()[0])
            abort();
    } else if (len > LIMIT || got[len]) {
        abort();
    }
    free(got);
    close(fd);
    return 0;
}
