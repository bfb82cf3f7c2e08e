/* A disk that fails: while the file in STORMLOG_TEST_BROKEN exists, nothing can be synced. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync(int fd) {
    const char *broken = getenv("STORMLOG_TEST_BROKEN");
    if (broken && access(broken, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}
