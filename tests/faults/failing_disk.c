/* Preloaded into Rekindle: lets writes and syncs fail, as a file beside the store orders.
 *
 * Each line of the file `failing` has an operation (sync or write), a kind of file (wal, shm, store,
 * pending or folder), and the number of the error. The data of a failed sync stays where it is, as
 * the kernel does it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(const char *name)
{
    size_t length = strlen(name);
    if (length > 4 && !strcmp(name + length - 4, "-wal"))
        return "wal";
    if (length > 4 && !strcmp(name + length - 4, "-shm"))
        return "shm";
    if (strstr(name, ".pending-"))
        return "pending";
    if (length > 3 && !strcmp(name + length - 3, ".db"))
        return "store";
    return NULL;
}

/* Return the number of the error that an operation is to fail with, or 0. */
static int ordered_error(const char *operation, int fd)
{
    char link[64], path[4096], orders[4200], line[128];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0 || path[0] != '/')
        return 0;
    path[length] = 0;
    struct stat status;
    const char *kind = "folder";
    if (fstat(fd, &status))
        return 0;
    if (!S_ISDIR(status.st_mode)) {
        char *name = strrchr(path, '/');
        kind = kind_of(name + 1);
        if (kind == NULL)
            return 0;
        *name = 0;
    }
    snprintf(orders, sizeof orders, "%s/failing", path);
    int file = open(orders, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    char data[1024];
    ssize_t size = read(file, data, sizeof data - 1);
    close(file);
    data[size > 0 ? size : 0] = 0;
    snprintf(line, sizeof line, "%s %s ", operation, kind);
    char *found = strstr(data, line);
    int number = 0;
    if (found)
        sscanf(found + strlen(line), "%d", &number);
    return number;
}

#define FAIL_IF_ORDERED(operation, fd)                \
    do {                                              \
        int before = errno;                           \
        int number = ordered_error((operation), (fd)); \
        errno = number ? number : before;             \
        if (number)                                   \
            return -1;                                \
    } while (0)

int fsync(int fd)
{
    FAIL_IF_ORDERED("sync", fd);
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    return real(fd);
}

int fdatasync(int fd)
{
    FAIL_IF_ORDERED("sync", fd);
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    return real(fd);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    FAIL_IF_ORDERED("write", fd);
    ssize_t (*real)(int, const void *, size_t, off_t) =
        (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
    return real(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    FAIL_IF_ORDERED("write", fd);
    ssize_t (*real)(int, const void *, size_t, off64_t) =
        (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    return real(fd, data, size, at);
}

ssize_t write(int fd, const void *data, size_t size)
{
    FAIL_IF_ORDERED("write", fd);
    ssize_t (*real)(int, const void *, size_t) =
        (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    return real(fd, data, size);
}
