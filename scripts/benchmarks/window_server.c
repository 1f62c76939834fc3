/* A window on a file, as small and as fast as a C program can serve one: the reference for scripts/bench.
 *
 * Usage: window_server FILE OFFSET SIZE MOUNTPOINT
 * The mount has one file, `large`: the SIZE bytes of FILE from OFFSET.  Reads are spliced from FILE to the kernel, and
 * writes are one pwrite each.  One thread serves, until the mount is gone.  The kernel keeps all that it may.
 */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGE 2
#define KEPT 3600.0

static int file;
static off_t start, size;

static struct stat attributes(fuse_ino_t number) {
    struct stat found = {.st_ino = number, .st_uid = getuid(), .st_gid = getgid(), .st_nlink = 1};
    found.st_mode = number == LARGE ? S_IFREG | 0644 : S_IFDIR | 0755;
    found.st_size = number == LARGE ? size : 0;
    return found;
}

static void init(void *data, struct fuse_conn_info *connection) {
    connection->want &= ~FUSE_CAP_SPLICE_READ; /* a request to write is read into memory */
    connection->want |= connection->capable & (FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
}

static void lookup(fuse_req_t request, fuse_ino_t folder, const char *name) {
    struct fuse_entry_param found = {.ino = LARGE, .attr_timeout = KEPT, .entry_timeout = KEPT};
    if (folder != FUSE_ROOT_ID || strcmp(name, "large") != 0) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    found.attr = attributes(LARGE);
    fuse_reply_entry(request, &found);
}

static void get_attributes(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *opened) {
    struct stat found = attributes(number);
    fuse_reply_attr(request, &found, KEPT);
}

static void open_file(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *opened) {
    opened->keep_cache = 1;
    opened->noflush = 1;
    fuse_reply_open(request, opened);
}

static void read_bytes(fuse_req_t request, fuse_ino_t number, size_t length, off_t offset, struct fuse_file_info *opened) {
    off_t rest = offset < size ? size - offset : 0;
    struct fuse_bufvec found = FUSE_BUFVEC_INIT(length < (size_t)rest ? length : (size_t)rest);
    found.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
    found.buf[0].fd = file;
    found.buf[0].pos = start + offset;
    fuse_reply_data(request, &found, FUSE_BUF_SPLICE_MOVE);
}

static void write_bytes(fuse_req_t request, fuse_ino_t number, const char *bytes, size_t length, off_t offset,
                        struct fuse_file_info *opened) {
    ssize_t done = -1;
    errno = EFBIG;
    if (offset + (off_t)length <= size)
        done = pwrite(file, bytes, length, start + offset);
    if (done < 0)
        fuse_reply_err(request, errno);
    else
        fuse_reply_write(request, (size_t)done);
}

static const struct fuse_lowlevel_ops operations = {
    .init = init,
    .lookup = lookup,
    .getattr = get_attributes,
    .open = open_file,
    .read = read_bytes,
    .write = write_bytes,
};

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: %s FILE OFFSET SIZE MOUNTPOINT\n", words[0]);
        return 2;
    }
    file = open(words[1], O_RDWR | O_CLOEXEC);
    if (file < 0) {
        perror(words[1]);
        return 1;
    }
    start = atoll(words[2]);
    size = atoll(words[3]);
    struct fuse_args arguments = FUSE_ARGS_INIT(1, words);
    struct fuse_session *session = fuse_session_new(&arguments, &operations, sizeof operations, NULL);
    if (session == NULL || fuse_session_mount(session, words[4]) != 0)
        return 1;
    int failed = fuse_session_loop(session);
    fuse_session_unmount(session);
    fuse_session_destroy(session);
    return failed != 0;
}
