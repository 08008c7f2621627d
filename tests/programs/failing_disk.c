/* A disk that fails, as a library to be preloaded: it stands in front of the system calls that change files whose
 * name ends with ".icecore" (or ".partial").
 *
 * DISK_FAILS=HOW:N says what the Nth such call does, counted from 1:
 *   dead   it fails with EIO, and so does every later one
 *   once   it fails with EIO, and the disk is well again
 *   kill   the process is killed in front of it
 *   torn   half of what it should write is written, then the process is killed; what is rewritten in place, inside one
 *          sector, is written whole or not at all
 *   half   it and every later write takes half of what it is given
 * DISK_FAILS=HOW:N@KIND counts from the call that writes the first block of this kind, a number. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum how { WELL, DEAD, ONCE, KILL, TORN, HALF };

static enum how how;
static long when, kind, calls;
static int counts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void)
{
	static const char *names[] = {"", "dead", "once", "kill", "torn", "half"};
	const char *text = getenv("DISK_FAILS"), *colon = text ? strchr(text, ':') : NULL;
	for (enum how h = DEAD; colon && h <= HALF; h++)
		if (strlen(names[h]) == (size_t)(colon - text) && !strncmp(names[h], text, colon - text))
			how = h;
	char *at = NULL;
	when = colon ? strtol(colon + 1, &at, 10) : 0;
	counts = !at || *at != '@';
	kind = counts ? 0 : atol(at + 1);
}

static int is_recording(int fd)
{
	char link[64], path[4096];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	if (len < 8)
		return 0;
	path[len] = 0;
	return !strcmp(path + len - 8, ".icecore") || !strcmp(path + len - 8, ".partial");
}

static void die(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

/* What becomes of a call: nothing special, a failure, half of it, or half of it and death. */
enum fate { PASS, FAIL, SHORT, LAST };

static int is_awaited(const unsigned char *from, size_t len)
{
	return len > 5 && !memcmp(from, "ICBK", 4) && from[4] + 256 * from[5] == kind;
}

static enum fate fate(int fd, const void *from, size_t len)
{
	if (how == WELL || !is_recording(fd))
		return PASS;
	pthread_mutex_lock(&lock);
	counts = counts || is_awaited(from, len);
	long call = calls += counts;
	pthread_mutex_unlock(&lock);
	if (call < when)
		return PASS;
	switch (how) {
	case DEAD:
		return FAIL;
	case ONCE:
		return call == when ? FAIL : PASS;
	case KILL:
		die();
		return PASS;
	case TORN:
		return LAST;
	case HALF:
		return SHORT;
	default:
		return PASS;
	}
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAILED (errno = EIO, -1)

static int is_inside(int fd, off_t off, size_t len)
{
	struct stat file;
	return off >= 0 && !fstat(fd, &file) && off + (off_t)len <= file.st_size && off / 512 == (off + (off_t)len - 1) / 512;
}

/* A call that writes `len` bytes at `off` (-1: the end) by `real`, in which `now` is how many of them. */
#define WRITE(fd, from, len, off, real) \
	do { \
		enum fate f = fate(fd, from, len); \
		size_t now = f == PASS ? (len) : ((len) + 1) / 2; \
		if (f == FAIL) \
			return FAILED; \
		if (f == LAST && is_inside(fd, off, len)) \
			die(); \
		ssize_t done = (real); \
		if (f == LAST) \
			die(); \
		return done; \
	} while (0)

/* A call that writes nothing. */
#define CHANGE(fd, real) \
	do { \
		enum fate f = fate(fd, NULL, 0); \
		if (f == FAIL) \
			return FAILED; \
		if (f == LAST) \
			die(); \
		return (real); \
	} while (0)

ssize_t write(int fd, const void *from, size_t len) { WRITE(fd, from, len, -1, REAL(write)(fd, from, now)); }
ssize_t pwrite(int fd, const void *from, size_t len, off_t off) { WRITE(fd, from, len, off, REAL(pwrite)(fd, from, now, off)); }
ssize_t pwrite64(int fd, const void *from, size_t len, off64_t off) { WRITE(fd, from, len, off, REAL(pwrite64)(fd, from, now, off)); }
int fsync(int fd) { CHANGE(fd, REAL(fsync)(fd)); }
int fdatasync(int fd) { CHANGE(fd, REAL(fdatasync)(fd)); }
int ftruncate(int fd, off_t len) { CHANGE(fd, REAL(ftruncate)(fd, len)); }
int ftruncate64(int fd, off64_t len) { CHANGE(fd, REAL(ftruncate64)(fd, len)); }
