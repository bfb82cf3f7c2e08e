/* A file system without locks and with a slow disk: flock fails, fsync takes its time. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int flock(int fd, int operation) {
    const char *kind = getenv("STORMLOG_TEST_FLOCK");
    (void)fd;
    (void)operation;
    errno = kind && strcmp(kind, "ENOSYS") == 0 ? ENOSYS : ENOLCK;
    return -1;
}

static void wait_for_disk(void) {
    struct timespec delay = {0, 400 * 1000 * 1000};
    nanosleep(&delay, NULL);
}

int fsync(int fd) {
    wait_for_disk();
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    wait_for_disk();
    return (int)syscall(SYS_fdatasync, fd);
}
