/* A disk that fails: while the file in STORMLOG_TEST_BROKEN exists, nothing can be synced. If the file
   contains "once", only one sync fails, as on Linux, which reports lost bytes only once; this sync
   takes a while, and the file is deleted when it begins. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync(int fd) {
    const char *broken = getenv("STORMLOG_TEST_BROKEN");
    if (broken && access(broken, F_OK) == 0) {
        char word[4] = "";
        int file = open(broken, O_RDONLY);
        if (file >= 0) {
            if (read(file, word, 4) == 4 && memcmp(word, "once", 4) == 0) {
                unlink(broken);
                usleep(300000);
            }
            close(file);
        }
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}
