/* Lets the writes of a server to some files fail, hang, or kill it; and sets its clock.
 *
 * Preloaded. The file NAME.plan beside this library says what happens:
 *   GENERATION WHAT ERROR AFTER COUNT PART
 * of the files whose path has PART: after so many writes that succeed, so many (0: all) do WHAT: `fail` with errno ERROR, `hang` until
 * the plan changes, `kill` before the write, `tear` after half of it. Another generation counts
 * anew. NAME.hit appears once something was done. NAME.clock holds seconds by which the wall
 * clock is ahead.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static char base[4000];
static long ahead;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long generation = -1, done;

static int read_file(const char *suffix, char *into, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s", base, suffix);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t count = read(fd, into, size - 1);
    close(fd);
    if (count <= 0) return 0;
    into[count] = 0;
    return 1;
}

__attribute__((constructor)) static void begin(void) {
    Dl_info info;
    if (dladdr((void *)begin, &info) && info.dli_fname)
        snprintf(base, sizeof base, "%s", info.dli_fname);
    char text[64];
    if (read_file(".clock", text, sizeof text)) ahead = atol(text);
}

static int has_part(int fd, const char *part) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return strstr(path, part) != NULL;
}

static void hit(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.hit", base);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
}

enum { PASS, FAIL, TEAR };

/* What a write to this file must do. */
static int plan(int fd) {
    char text[256], what[16], part[128];
    for (;;) {
        long number = 0, code = 0, after = 0, count = 0;
        if (!read_file(".plan", text, sizeof text)) return PASS;
        if (sscanf(text, "%ld %15s %ld %ld %ld %127s", &number, what, &code, &after, &count,
                   part) < 6 ||
            !has_part(fd, part))
            return PASS;
        pthread_mutex_lock(&lock);
        if (number != generation) {
            generation = number;
            done = 0;
        }
        int passes = done < after || (count > 0 && after + count <= done);
        if (passes || count > 0) done++;
        pthread_mutex_unlock(&lock);
        if (passes) return PASS;
        hit();
        if (!strcmp(what, "fail")) {
            errno = (int)code;
            return FAIL;
        }
        if (!strcmp(what, "tear")) return TEAR;
        if (!strcmp(what, "kill")) kill(getpid(), SIGKILL);
        usleep(2000);
    }
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    int what = plan(fd);
    if (what == FAIL) return -1;
    if (what == TEAR) {
        syscall(SYS_pwrite64, fd, bytes, count / 2, at);
        kill(getpid(), SIGKILL);
    }
    return syscall(SYS_pwrite64, fd, bytes, count, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    return pwrite64(fd, bytes, count, at);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    int what = plan(fd);
    if (what == FAIL) return -1;
    if (what == TEAR) {
        syscall(SYS_write, fd, bytes, count / 2);
        kill(getpid(), SIGKILL);
    }
    return syscall(SYS_write, fd, bytes, count);
}

int fsync(int fd) {
    if (plan(fd) == FAIL) return -1;
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    if (plan(fd) == FAIL) return -1;
    return (int)syscall(SYS_fdatasync, fd);
}

int ftruncate64(int fd, off64_t length) {
    if (plan(fd) == FAIL) return -1;
    return (int)syscall(SYS_ftruncate, fd, length);
}

int ftruncate(int fd, off_t length) {
    return ftruncate64(fd, length);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += ahead;
    return result;
}
