// size: one library, one compilation; its parts share the journal's lock.
// Preload shim (LD_PRELOAD, Linux): stands between a process and libc for the calls that change files or read the clock.
//
// What it does to files below PRELOAD_SHIM_ROOT is switched at run time in the control file (control.ts): failing, slow and short
// writes and syncs, a full disk, a shifted wall clock. With PRELOAD_SHIM_UNDO it also keeps an undo journal there: for every change
// that no sync has covered, what it takes to take it back. undo-files.ts reads it, power-loss.ts plays the power loss.
//
// The rules that make the journal right:
//   - a record is written before the change it undoes, and both under one lock: the order of records is the order of changes,
//     and when the process is killed at most the very last record has no change (which its undo survives: it restores what is there);
//   - a sync settles what was changed before it began, never what was changed meanwhile;
//   - after a sync that failed, what it should have covered stays unsettled for good (Linux marks the pages clean: a later sync that
//     succeeds says nothing about them), and the file's journal is kept whole;
//   - only the sync of a directory settles the names in it; a removed file stays, linked, in the attic until then.
// Journal: one file `j-<inode>` per file or directory, removed when all in it is settled. At most UNDO_MAX bytes each and
// INODES_MAX inodes per process; what has no room is counted as lost, and the harness then refuses to play a power loss.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_BYTES 4096
#define CONTROL_MAGIC 0x314d49485341544fLL
#define UNDO_MAX (256ULL << 20)
#define COMPACT_BYTES (1ULL << 20)
#define CHUNK_BYTES (1ULL << 20)
#define INODES_MAX 65536
#define FDS_MAX 65536
#define IOV_LIMIT 1024

// Slots of the control file, as in control.ts.
enum {
  FAIL_SYNCS = 1, SYNC_DELAY_MS, FAIL_WRITES, WRITE_DELAY_MS, SHORT_WRITES, SPACE_LEFT, CLOCK_OFFSET_MS, MATCH,
  SYNCS = 32, SYNCS_FAILED, SYNCS_DELAYED, WRITES, WRITES_FAILED, WRITES_DELAYED, WRITES_SHORTENED, WRITES_REFUSED,
  RESIZES, NAMES, CLOCK_READS, UNDO_RECORDS, UNDO_BYTES, UNDO_LOST, UNSUPPORTED, LAST_FAILURE_US,
  SEQUENCE = 64
};

// Kinds of records, as in undo-files.ts.
enum { WRITE = 1, CUT, RESIZE, SYNC, FAILED, ABORT, CREATE, MKDIR, UNLINK, RMDIR, RENAME };

struct record {
  uint32_t magic, kind;
  uint64_t sequence, a, b, c;
  uint32_t crc, reserved;  // crc: of the bytes written, CRC-32C
  uint64_t body_bytes;
  uint32_t zero, check;  // check: CRC-32C of what is before it
};
#define RECORD_MAGIC 0x4f444e55u

struct journal { uint64_t ino, base, bytes; int is_sticky, is_known; };
struct file { char *path; ino_t ino; dev_t dev; int is_append; };

static int64_t *slots;
static char root[PATH_MAX], undo[PATH_MAX];
static size_t root_bytes;
static int has_undo;
static struct journal journals[INODES_MAX];
static struct file files[FDS_MAX];
static uint32_t crc_table[8][256];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define REAL(result, name, ...)                       \
  static result (*real_##name)(__VA_ARGS__);          \
  static result (*get_##name(void))(__VA_ARGS__) {    \
    if (!real_##name) real_##name = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name); \
    return real_##name;                               \
  }
REAL(int, open64, const char *, int, ...)
REAL(int, close, int)
REAL(ssize_t, write, int, const void *, size_t)
REAL(ssize_t, writev, int, const struct iovec *, int)
REAL(ssize_t, pwritev64, int, const struct iovec *, int, off64_t)
REAL(int, ftruncate64, int, off64_t)
REAL(int, fsync, int)
REAL(int, fdatasync, int)
REAL(int, rename, const char *, const char *)
REAL(int, unlink, const char *)
REAL(int, mkdir, const char *, mode_t)
REAL(int, rmdir, const char *)
REAL(int, link, const char *, const char *)
REAL(int, symlink, const char *, const char *)
REAL(ssize_t, sendfile64, int, int, off64_t *, size_t)
REAL(void *, mmap64, void *, size_t, int, int, int, off64_t)
REAL(long, syscall, long, ...)
REAL(int, clock_gettime, clockid_t, struct timespec *)
REAL(int, gettimeofday, struct timeval *, void *)

// ---- control file ------------------------------------------------------------------------------------------------------------

static int64_t setting(int slot) { return __atomic_load_n(&slots[slot], __ATOMIC_RELAXED); }
static void count(int slot, int64_t by) { __atomic_fetch_add(&slots[slot], by, __ATOMIC_RELAXED); }
static uint64_t next_sequence(void) { return (uint64_t)__atomic_fetch_add(&slots[SEQUENCE], 1, __ATOMIC_RELAXED); }

// A fault for the next n calls (n > 0, counted down) or for all (n < 0).
static int strikes(int slot) {
  int64_t left = setting(slot);
  while (left > 0)
    if (__atomic_compare_exchange_n(&slots[slot], &left, left - 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return 1;
  return left < 0;
}

// When it is told that a call failed, so that what the process does about it can be measured from there.
static void failed(int counter) {
  struct timespec now;
  count(counter, 1);
  get_clock_gettime()(CLOCK_MONOTONIC, &now);
  __atomic_store_n(&slots[LAST_FAILURE_US], now.tv_sec * 1000000LL + now.tv_nsec / 1000, __ATOMIC_RELAXED);
}

static int matches(const char *path) {
  const char *text = (const char *)&slots[MATCH];
  return text[0] == 0 || strstr(path, text) != NULL;
}

static void delay(int slot, int counter) {
  int64_t ms = setting(slot);
  if (ms <= 0) return;
  count(counter, 1);
  struct timespec left = {ms / 1000, (ms % 1000) * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

// ---- CRC-32C, eight bytes at a time -------------------------------------------------------------------------------------------

static void make_crc_tables(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
    crc_table[0][i] = crc;
  }
  for (int t = 1; t < 8; t++)
    for (int i = 0; i < 256; i++) crc_table[t][i] = (crc_table[t - 1][i] >> 8) ^ crc_table[0][crc_table[t - 1][i] & 255];
}

static uint32_t crc32c(uint32_t crc, const void *data, size_t bytes) {
  const uint8_t *p = data;
  crc = ~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint32_t low, high;
    memcpy(&low, p, 4);
    memcpy(&high, p + 4, 4);
    low ^= crc;
    crc = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^ crc_table[5][low >> 16 & 255] ^ crc_table[4][low >> 24] ^
          crc_table[3][high & 255] ^ crc_table[2][high >> 8 & 255] ^ crc_table[1][high >> 16 & 255] ^ crc_table[0][high >> 24];
  }
  for (; bytes > 0; bytes--) crc = (crc >> 8) ^ crc_table[0][(crc ^ *p++) & 255];
  return ~crc;
}

// ---- undo journal; all of it under the lock ---------------------------------------------------------------------------------

static struct journal *journal_of(uint64_t ino) {
  for (size_t probe = 0, at = (ino * 0x9e3779b97f4a7c15ULL) >> 48; probe < INODES_MAX; probe++, at = (at + 1) % INODES_MAX) {
    struct journal *found = &journals[at];
    if (found->is_known && found->ino == ino) return found;
    if (found->is_known) continue;
    found->is_known = 1;
    found->ino = ino;
    return found;
  }
  return NULL;
}

static char *journal_path(char *path, uint64_t ino) {
  snprintf(path, PATH_MAX + 32, "%s/j-%llu", undo, (unsigned long long)ino);
  return path;
}

static char *attic_path(char *path, uint64_t sequence) {
  snprintf(path, PATH_MAX + 32, "%s/attic/%llu", undo, (unsigned long long)sequence);
  return path;
}

static uint32_t check_of(const struct record *record) { return crc32c(0, record, offsetof(struct record, check)); }

static void note(uint64_t ino, struct record record, const void *body) {
  struct journal *journal = journal_of(ino);
  char path[PATH_MAX + 32];
  uint64_t bytes = sizeof record + record.body_bytes;
  int fd = -1;
  record.magic = RECORD_MAGIC;
  record.check = check_of(&record);
  if (journal && journal->bytes + bytes <= UNDO_MAX)
    fd = get_open64()(journal_path(path, ino), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  struct iovec parts[2] = {{&record, sizeof record}, {(void *)body, record.body_bytes}};
  if (fd < 0 || get_writev()(fd, parts, record.body_bytes ? 2 : 1) != (ssize_t)bytes) {
    count(UNDO_LOST, 1);
  } else {
    journal->bytes += bytes;
    if (record.kind == FAILED) journal->is_sticky = 1;
    count(UNDO_RECORDS, 1);
    count(UNDO_BYTES, (int64_t)bytes);
  }
  if (fd >= 0) get_close()(fd);
}

static void note_mark(uint64_t ino, uint32_t kind, uint64_t a, uint64_t b) {
  note(ino, (struct record){.kind = kind, .sequence = next_sequence(), .a = a, .b = b}, NULL);
}

static int is_zero(const char *bytes, size_t count_bytes) {
  return count_bytes == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count_bytes - 1) == 0);
}

// Descriptors opened for writing only are read through another one.
static int read_old(int fd, char *to, size_t bytes, uint64_t position) {
  int reader = -1;
  size_t done = 0;
  while (done < bytes) {
    ssize_t got = pread64(reader < 0 ? fd : reader, to + done, bytes - done, (off64_t)(position + done));
    if (got < 0 && errno == EBADF && reader < 0) {
      char path[64];
      snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
      reader = get_open64()(path, O_RDONLY | O_CLOEXEC);
      if (reader >= 0) continue;
    }
    if (got <= 0) break;
    done += (size_t)got;
  }
  if (reader >= 0) get_close()(reader);
  return done == bytes;
}

// What the bytes from `position` on are before they are overwritten or cut off; nothing is kept of zeros.
static void note_old(int fd, struct record record, const struct stat *stat, uint64_t bytes) {
  char *old = malloc(bytes ? bytes : 1);
  if (!old || !read_old(fd, old, bytes, record.a)) count(UNDO_LOST, 1);
  else {
    record.body_bytes = is_zero(old, bytes) ? 0 : bytes;
    if (record.kind != CUT || record.body_bytes) note(stat->st_ino, record, old);
  }
  free(old);
}

static uint64_t note_write(int fd, const struct stat *stat, uint64_t position, const struct iovec *iov, int parts, uint64_t bytes) {
  uint64_t size = (uint64_t)stat->st_size, end = position + bytes;
  struct record record = {.kind = WRITE, .sequence = next_sequence(), .a = position, .b = bytes, .c = size};
  for (int i = 0; i < parts; i++) record.crc = crc32c(record.crc, iov[i].iov_base, iov[i].iov_len);
  note_old(fd, record, stat, position >= size ? 0 : (end < size ? end : size) - position);
  return record.sequence;
}

static uint64_t note_resize(int fd, const struct stat *stat, uint64_t size) {
  uint64_t sequence = next_sequence(), old = (uint64_t)stat->st_size;
  for (uint64_t at = size; at < old; at += CHUNK_BYTES) {
    uint64_t bytes = old - at < CHUNK_BYTES ? old - at : CHUNK_BYTES;
    note_old(fd, (struct record){.kind = CUT, .sequence = sequence, .a = at, .b = bytes}, stat, bytes);
  }
  note(stat->st_ino, (struct record){.kind = RESIZE, .sequence = sequence, .a = size, .c = old}, NULL);
  return sequence;
}

static void drop_journal(uint64_t ino) {
  struct journal *journal = journal_of(ino);
  char path[PATH_MAX + 32];
  if (!journal) return;
  get_unlink()(journal_path(path, ino));
  journal->base += journal->bytes;
  journal->bytes = 0;
  journal->is_sticky = 0;
}

static int read_record(int fd, uint64_t at, struct record *record) {
  return pread64(fd, record, sizeof *record, (off64_t)at) == (ssize_t)sizeof *record && record->magic == RECORD_MAGIC &&
         record->check == check_of(record);
}

// Removals in the first `bytes` of a directory's journal are final: nothing is kept of what they removed.
static void release_names(uint64_t ino, uint64_t bytes) {
  char path[PATH_MAX + 32];
  int fd = get_open64()(journal_path(path, ino), O_RDONLY | O_CLOEXEC);
  struct record record;
  struct stat stat;
  for (uint64_t at = 0; fd >= 0 && at < bytes && read_record(fd, at, &record); at += sizeof record + record.body_bytes) {
    if (record.kind == RMDIR) {
      release_names(record.a, UINT64_MAX);
      drop_journal(record.a);
      get_rmdir()(attic_path(path, record.sequence));
    } else if (record.kind == UNLINK || (record.kind == RENAME && record.b != 0)) {
      if (lstat(attic_path(path, record.sequence), &stat) != 0) continue;
      if (stat.st_nlink == 1) drop_journal(stat.st_ino);
      get_unlink()(path);
    }
  }
  if (fd >= 0) get_close()(fd);
}

// Keeps what is behind the first `bytes` of a journal.
static void compact(struct journal *journal, uint64_t bytes) {
  char path[PATH_MAX + 32], fresh[PATH_MAX + 40];
  snprintf(fresh, sizeof fresh, "%s.new", journal_path(path, journal->ino));
  int from = get_open64()(path, O_RDONLY | O_CLOEXEC);
  int to = get_open64()(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  char buffer[65536];
  uint64_t at = bytes;
  ssize_t got = 0;
  while (from >= 0 && to >= 0 && (got = pread64(from, buffer, sizeof buffer, (off64_t)at)) > 0) {
    if (get_write()(to, buffer, (size_t)got) != got) break;
    at += (uint64_t)got;
  }
  if (from >= 0) get_close()(from);
  if (to >= 0) get_close()(to);
  // Not compacted is as right, only longer.
  if (at != journal->bytes || get_rename()(fresh, path) != 0) return;
  journal->base += bytes;
  journal->bytes -= bytes;
}

// A sync that began when the journal ended at `end` has succeeded. Said first where it takes more than one step to act on it: killed in
// between, a name whose file is gone from the attic must count as settled.
static void settle(const struct stat *stat, uint64_t end, uint64_t mark) {
  uint64_t ino = stat->st_ino;
  struct journal *journal = journal_of(ino);
  if (!journal || journal->bytes == 0 || end <= journal->base) return;
  uint64_t settled = end - journal->base;
  int is_all = settled == journal->bytes, is_directory = S_ISDIR(stat->st_mode);
  if (journal->is_sticky || !is_all || is_directory) note_mark(ino, SYNC, mark, 0);
  if (journal->is_sticky) return;
  if (is_directory) release_names(ino, settled);
  if (is_all) drop_journal(ino);
  else if (settled >= COMPACT_BYTES) compact(journal, settled);
}

// What a process before this one left: its journals are gone on with, without what it was killed in.
static void load_journals(void) {
  DIR *directory = opendir(undo);
  char path[PATH_MAX + 32];
  struct dirent *entry;
  while (directory && (entry = readdir(directory))) {
    char *rest = "";
    uint64_t ino = strncmp(entry->d_name, "j-", 2) ? 0 : strtoull(entry->d_name + 2, &rest, 10);
    if (ino == 0) continue;
    if (*rest != 0) {
      strncat(journal_path(path, ino), rest, 8);
      get_unlink()(path);
      continue;
    }
    struct journal *journal = journal_of(ino);
    struct record record;
    struct stat stat;
    int fd = get_open64()(journal_path(path, ino), O_RDWR | O_CLOEXEC);
    if (!journal || fd < 0 || fstat(fd, &stat) != 0) {
      count(UNDO_LOST, 1);
      if (fd >= 0) get_close()(fd);
      continue;
    }
    uint64_t at = 0, next;
    for (; read_record(fd, at, &record); at = next) {
      next = at + sizeof record + record.body_bytes;
      if (next > (uint64_t)stat.st_size) break;
      if (record.kind == FAILED) journal->is_sticky = 1;
    }
    if (get_ftruncate64()(fd, (off64_t)at) != 0) count(UNDO_LOST, 1);
    journal->bytes = at;
    get_close()(fd);
  }
  if (directory) closedir(directory);
  // The last record before this may stand for a change that was never made: the journal's readers must know.
  uint64_t start = next_sequence();
  snprintf(path, sizeof path, "%s/starts", undo);
  int fd = get_open64()(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 || get_write()(fd, &start, sizeof start) != (ssize_t)sizeof start) count(UNDO_LOST, 1);
  if (fd >= 0) get_close()(fd);
}

static int is_journal_loaded;

// Not at the start: a program that only runs the broker (nsenter) must not touch the journal.
static void begin(void) {
  pthread_mutex_lock(&lock);
  if (!has_undo || is_journal_loaded) return;
  is_journal_loaded = 1;
  load_journals();
}

static void end(void) {
  int saved = errno;
  pthread_mutex_unlock(&lock);
  errno = saved;
}

// ---- what belongs to the data directory ----------------------------------------------------------------------------------------

static void start(void) {
  const char *control = getenv("PRELOAD_SHIM_CONTROL"), *at = getenv("PRELOAD_SHIM_ROOT"), *journal = getenv("PRELOAD_SHIM_UNDO");
  if (!control || !at) return;
  int fd = get_open64()(control, O_RDWR | O_CLOEXEC);
  void *mapped = fd < 0 ? MAP_FAILED : get_mmap64()(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) get_close()(fd);
  if (mapped == MAP_FAILED || *(int64_t *)mapped != CONTROL_MAGIC) {
    // A broker without its faults would pass for one that stands them.
    static const char words[] = "preload shim: no control file in PRELOAD_SHIM_CONTROL\n";
    if (get_write()(2, words, sizeof words - 1) < 0) {}
    _exit(98);
  }
  make_crc_tables();
  snprintf(root, sizeof root, "%s", at);
  root_bytes = strlen(root);
  if (journal) snprintf(undo, sizeof undo, "%s", journal);
  has_undo = journal != NULL;
  slots = mapped;
}

static int is_on(void) {
  int saved = errno;
  pthread_once(&once, start);
  errno = saved;
  return slots != NULL;
}

// The whole path, with the links of its directory followed; false: not the root nor below it.
static int is_ours(int dirfd, const char *path, char *whole) {
  char text[PATH_MAX * 2], directory[PATH_MAX];
  if (!is_on() || !path) return 0;
  int saved = errno;
  if (path[0] == '/' || dirfd == AT_FDCWD) snprintf(text, sizeof text, "%s%s", path[0] == '/' ? "" : "./", path);
  else snprintf(text, sizeof text, "/proc/self/fd/%d/%s", dirfd, path);
  size_t bytes = strlen(text);
  while (bytes > 1 && text[bytes - 1] == '/') text[--bytes] = 0;
  char *slash = strrchr(text, '/');
  const char *name = slash + 1;
  int is_found;
  if (name[0] == 0 || !strcmp(name, ".") || !strcmp(name, "..")) is_found = realpath(text, whole) != NULL;
  else {
    *slash = 0;
    is_found = realpath(slash == text ? "/" : text, directory) != NULL &&
               snprintf(whole, PATH_MAX, "%s/%s", directory[1] ? directory : "", name) < PATH_MAX;
  }
  errno = saved;
  return is_found && !strncmp(whole, root, root_bytes) && (whole[root_bytes] == '/' || whole[root_bytes] == 0);
}

static struct file *file_of(int fd) {
  if (fd < 0 || fd >= FDS_MAX || !files[fd].path || !is_on()) return NULL;
  return &files[fd];
}

// False: the number is another file's by now (it was closed behind our back).
static int is_same(int fd, const struct file *file, struct stat *stat) {
  return fstat(fd, stat) == 0 && stat->st_ino == file->ino && stat->st_dev == file->dev;
}

static void opened(int fd, int flags, const char *whole) {
  struct stat stat;
  int saved = errno;
  if (fd >= FDS_MAX) count(UNSUPPORTED, 1);
  else if (fstat(fd, &stat) == 0 && (S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode))) {
    free(files[fd].path);
    files[fd] = (struct file){strdup(whole), stat.st_ino, stat.st_dev, (flags & O_APPEND) != 0};
  }
  errno = saved;
}

static uint64_t parent_ino(const char *whole) {
  char directory[PATH_MAX];
  struct stat stat;
  snprintf(directory, sizeof directory, "%s", whole);
  *strrchr(directory, '/') = 0;
  return lstat(directory, &stat) == 0 ? stat.st_ino : 0;
}

static const char *name_of(const char *whole) { return strrchr(whole, '/') + 1; }

static uint64_t note_name(uint32_t kind, const char *whole, uint64_t ino) {
  uint64_t sequence = next_sequence();
  const char *name = name_of(whole);
  note(parent_ino(whole), (struct record){.kind = kind, .sequence = sequence, .a = ino, .body_bytes = strlen(name)}, name);
  return sequence;
}

// A change that was noted and then failed, or did only `done` bytes of it.
static void note_abort(uint64_t ino, uint64_t sequence, uint64_t done) {
  int saved = errno;
  note_mark(ino, ABORT, sequence, done);
  errno = saved;
}

// ---- files ---------------------------------------------------------------------------------------------------------------------

static int create(const char *path, int flags, mode_t mode, const char *whole) {
  struct stat stat;
  begin();
  int is_new = has_undo && lstat(whole, &stat) != 0;
  uint64_t sequence = 0;
  if (has_undo && !is_new && (flags & O_TRUNC) && S_ISREG(stat.st_mode) && stat.st_size > 0) {
    int old = get_open64()(whole, O_RDONLY | O_CLOEXEC);
    sequence = note_resize(old, &stat, 0);
    if (old >= 0) get_close()(old);
  }
  int fd = get_open64()(path, flags, mode);
  if (sequence != 0 && fd < 0) note_abort(stat.st_ino, sequence, 0);
  // Noted afterwards, since only now it has an inode. Killed in between, the name counts as synced: a disk may do that.
  if (fd >= 0 && is_new && fstat(fd, &stat) == 0) {
    drop_journal(stat.st_ino);
    note_name(CREATE, whole, stat.st_ino);
    count(NAMES, 1);
  }
  end();
  return fd;
}

static int open_file(int dirfd, const char *path, int flags, mode_t mode) {
  char whole[PATH_MAX];
  int is_our = is_ours(dirfd, path, whole);
  const char *at = is_our && dirfd != AT_FDCWD ? whole : path;
  int fd = is_our && (flags & (O_CREAT | O_TRUNC)) ? create(at, flags, mode, whole) : get_open64()(at, flags, mode);
  if (is_our && fd >= 0) opened(fd, flags, whole);
  else if (fd >= 0 && fd < FDS_MAX && files[fd].path) { free(files[fd].path); files[fd].path = NULL; }
  return fd;
}

#define MODE_OF(flags)                                        \
  mode_t mode = 0;                                            \
  if ((flags) & (O_CREAT | O_TMPFILE)) {                      \
    va_list list;                                             \
    va_start(list, flags);                                    \
    mode = va_arg(list, mode_t);                              \
    va_end(list);                                             \
  }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return open_file(AT_FDCWD, path, flags, mode); }
int open(const char *path, int flags, ...) { MODE_OF(flags) return open_file(AT_FDCWD, path, flags | O_LARGEFILE, mode); }

int close(int fd) {
  struct file *file = file_of(fd);
  if (file) {
    char *path = file->path;
    file->path = NULL;
    free(path);
  }
  return get_close()(fd);
}

// The first `bytes` of a vector; `to` holds IOV_LIMIT parts.
static int first_bytes(const struct iovec *iov, int parts, uint64_t bytes, struct iovec *to) {
  int kept = 0;
  for (; kept < parts && bytes > 0; kept++) {
    to[kept] = iov[kept];
    if (to[kept].iov_len > bytes) to[kept].iov_len = bytes;
    bytes -= to[kept].iov_len;
  }
  return kept;
}

// How much of a write is let through; -1: none, with errno. Takes what it grows the file by from the space that is left.
static int64_t allowed_bytes(const struct file *file, const struct stat *stat, uint64_t position, uint64_t bytes) {
  if (bytes == 0 || !matches(file->path)) return (int64_t)bytes;
  if (strikes(FAIL_WRITES)) return failed(WRITES_FAILED), errno = EIO, -1;
  uint64_t allowed = bytes, size = (uint64_t)stat->st_size;
  if (setting(SHORT_WRITES) && bytes > 1) {
    allowed = 1 + (position * 0x9e3779b97f4a7c15ULL >> 20) % (bytes - 1);
    count(WRITES_SHORTENED, 1);
  }
  int64_t left = setting(SPACE_LEFT);
  if (left < 0) return (int64_t)allowed;
  uint64_t grows = position + allowed > size ? position + allowed - size : 0;
  if (grows > (uint64_t)left) {
    if (grows - (uint64_t)left >= allowed) return count(WRITES_REFUSED, 1), errno = ENOSPC, -1;
    allowed -= grows - (uint64_t)left;
    grows = (uint64_t)left;
  }
  __atomic_compare_exchange_n(&slots[SPACE_LEFT], &left, left - (int64_t)grows, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return (int64_t)allowed;
}

// `position` < 0: where the descriptor stands.
static ssize_t write_file(int fd, const struct iovec *iov, int parts, off64_t position) {
  struct file *file = file_of(fd);
  struct stat stat;
  if (!file || parts > IOV_LIMIT || !is_same(fd, file, &stat))
    return position < 0 ? get_writev()(fd, iov, parts) : get_pwritev64()(fd, iov, parts, position);
  if (matches(file->path)) delay(WRITE_DELAY_MS, WRITES_DELAYED);
  uint64_t bytes = 0, sequence = 0;
  for (int i = 0; i < parts; i++) bytes += iov[i].iov_len;
  struct iovec kept[IOV_LIMIT];
  begin();
  count(WRITES, 1);
  fstat(fd, &stat);
  int64_t at = file->is_append ? stat.st_size : position < 0 ? lseek64(fd, 0, SEEK_CUR) : position;
  int64_t allowed = allowed_bytes(file, &stat, (uint64_t)at, bytes);
  if (allowed < 0) return end(), -1;
  int is_noted = has_undo && stat.st_nlink > 0 && allowed > 0;
  parts = first_bytes(iov, parts, (uint64_t)allowed, kept);
  if (is_noted) sequence = note_write(fd, &stat, (uint64_t)at, kept, parts, (uint64_t)allowed);
  ssize_t done = position < 0 ? get_writev()(fd, kept, parts) : get_pwritev64()(fd, kept, parts, position);
  if (is_noted && done != allowed) note_abort(stat.st_ino, sequence, done < 0 ? 0 : (uint64_t)done);
  end();
  return done;
}

ssize_t write(int fd, const void *data, size_t bytes) {
  if (!file_of(fd)) return get_write()(fd, data, bytes);
  struct iovec iov = {(void *)data, bytes};
  return write_file(fd, &iov, 1, -1);
}
ssize_t writev(int fd, const struct iovec *iov, int parts) { return write_file(fd, iov, parts, -1); }
ssize_t pwritev64(int fd, const struct iovec *iov, int parts, off64_t at) { return write_file(fd, iov, parts, at); }
ssize_t pwritev(int fd, const struct iovec *iov, int parts, off_t at) { return write_file(fd, iov, parts, at); }
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at) {
  struct iovec iov = {(void *)data, bytes};
  return write_file(fd, &iov, 1, at);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) { return pwrite64(fd, data, bytes, at); }

int ftruncate64(int fd, off64_t size) {
  struct file *file = file_of(fd);
  struct stat stat;
  if (!file || !is_same(fd, file, &stat)) return get_ftruncate64()(fd, size);
  begin();
  count(RESIZES, 1);
  fstat(fd, &stat);
  int is_noted = has_undo && stat.st_nlink > 0 && size != stat.st_size;
  uint64_t sequence = is_noted ? note_resize(fd, &stat, (uint64_t)size) : 0;
  int result = get_ftruncate64()(fd, size);
  if (is_noted && result != 0) note_abort(stat.st_ino, sequence, 0);
  end();
  return result;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static int sync_file(int fd, int (*real)(int)) {
  struct file *file = file_of(fd);
  struct stat stat;
  if (!file || !is_same(fd, file, &stat)) return real(fd);
  count(SYNCS, 1);
  begin();
  struct journal *journal = has_undo ? journal_of(stat.st_ino) : NULL;
  uint64_t mark = next_sequence(), covered = journal ? journal->base + journal->bytes : 0;
  end();
  int is_struck = matches(file->path);
  if (is_struck) delay(SYNC_DELAY_MS, SYNCS_DELAYED);
  int result = -1;
  if (is_struck && strikes(FAIL_SYNCS)) {
    failed(SYNCS_FAILED);
    errno = EIO;
  } else result = real(fd);
  int saved = errno;
  begin();
  if (has_undo && result == 0) settle(&stat, covered, mark);
  else if (journal && journal->bytes > 0) note_mark(stat.st_ino, FAILED, mark, 0);
  errno = saved;
  end();
  return result;
}
int fsync(int fd) { return sync_file(fd, get_fsync()); }
int fdatasync(int fd) { return sync_file(fd, get_fdatasync()); }

// ---- names ---------------------------------------------------------------------------------------------------------------------

int unlink(const char *path) {
  char whole[PATH_MAX], kept[PATH_MAX + 32];
  struct stat stat;
  if (!is_ours(AT_FDCWD, path, whole)) return get_unlink()(path);
  begin();
  count(NAMES, 1);
  uint64_t sequence = 0;
  int is_noted = has_undo && lstat(whole, &stat) == 0 && !S_ISDIR(stat.st_mode);
  if (is_noted) {
    sequence = next_sequence();
    if (get_link()(whole, attic_path(kept, sequence)) != 0) count(UNDO_LOST, 1);
    const char *name = name_of(whole);
    note(parent_ino(whole), (struct record){.kind = UNLINK, .sequence = sequence, .a = stat.st_ino, .body_bytes = strlen(name)}, name);
  }
  int result = get_unlink()(path);
  if (is_noted && result != 0) note_abort(parent_ino(whole), sequence, 0);
  end();
  return result;
}

int rename(const char *from, const char *to) {
  char whole_from[PATH_MAX], whole_to[PATH_MAX], names[NAME_MAX * 2 + 2], kept[PATH_MAX + 32];
  struct stat stat, replaced = {0};
  int is_from = is_ours(AT_FDCWD, from, whole_from), is_to = is_ours(AT_FDCWD, to, whole_to);
  if (!is_from && !is_to) return get_rename()(from, to);
  begin();
  count(NAMES, 1);
  uint64_t sequence = 0, directory = has_undo ? parent_ino(whole_from) : 0;
  int has_replaced = lstat(whole_to, &replaced) == 0;
  int is_noted = has_undo && lstat(whole_from, &stat) == 0 && !(has_replaced && stat.st_ino == replaced.st_ino);
  if (is_noted && (!is_from || !is_to || directory != parent_ino(whole_to) || (has_replaced && S_ISDIR(replaced.st_mode)))) {
    count(UNSUPPORTED, 1);
    is_noted = 0;
  }
  if (is_noted) {
    sequence = next_sequence();
    if (has_replaced && get_link()(whole_to, attic_path(kept, sequence)) != 0) count(UNDO_LOST, 1);
    size_t bytes = (size_t)snprintf(names, sizeof names, "%s/%s", name_of(whole_from), name_of(whole_to));
    note(directory, (struct record){.kind = RENAME, .sequence = sequence, .a = stat.st_ino,
                                    .b = has_replaced ? replaced.st_ino : 0, .body_bytes = bytes}, names);
  }
  int result = get_rename()(from, to);
  if (is_noted && result != 0) note_abort(directory, sequence, 0);
  end();
  return result;
}

int mkdir(const char *path, mode_t mode) {
  char whole[PATH_MAX];
  struct stat stat;
  if (!is_ours(AT_FDCWD, path, whole)) return get_mkdir()(path, mode);
  begin();
  count(NAMES, 1);
  int result = get_mkdir()(path, mode);
  if (has_undo && result == 0 && lstat(whole, &stat) == 0) {
    drop_journal(stat.st_ino);
    note_name(MKDIR, whole, stat.st_ino);
  }
  end();
  return result;
}

static int is_empty(const char *path) {
  DIR *directory = opendir(path);
  int names = 0;
  while (directory && readdir(directory)) names++;
  if (directory) closedir(directory);
  return names == 2;
}

// A directory is moved away rather than removed: while its removal may be taken back, its inode must not become another's.
int rmdir(const char *path) {
  char whole[PATH_MAX], kept[PATH_MAX + 32];
  struct stat stat;
  if (!is_ours(AT_FDCWD, path, whole)) return get_rmdir()(path);
  begin();
  count(NAMES, 1);
  int is_noted = has_undo && lstat(whole, &stat) == 0 && S_ISDIR(stat.st_mode) && is_empty(whole);
  uint64_t sequence = is_noted ? note_name(RMDIR, whole, stat.st_ino) : 0;
  int result = is_noted ? get_rename()(whole, attic_path(kept, sequence)) : get_rmdir()(path);
  if (is_noted && result != 0) note_abort(parent_ino(whole), sequence, 0);
  end();
  return result;
}

int link(const char *from, const char *to) {
  char whole[PATH_MAX];
  struct stat stat;
  if (!is_ours(AT_FDCWD, to, whole)) return get_link()(from, to);
  begin();
  count(NAMES, 1);
  int result = get_link()(from, to);
  if (has_undo && result == 0 && lstat(whole, &stat) == 0) note_name(CREATE, whole, stat.st_ino);
  end();
  return result;
}

// ---- calls that could change files unseen: counted, so that a power loss is refused rather than played wrongly --------------------

int symlink(const char *target, const char *path) {
  char whole[PATH_MAX];
  if (is_ours(AT_FDCWD, path, whole)) count(UNSUPPORTED, 1);
  return get_symlink()(target, path);
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t bytes) {
  if (file_of(to)) count(UNSUPPORTED, 1);
  return get_sendfile64()(to, from, at, bytes);
}
void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off64_t offset) {
  if ((flags & MAP_SHARED) && (protection & PROT_WRITE) && file_of(fd)) count(UNSUPPORTED, 1);
  return get_mmap64()(at, bytes, protection, flags, fd, offset);
}
long syscall(long number, ...) {
  long v[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) v[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_io_uring_enter && is_on()) count(UNSUPPORTED, 1);
  if (number == SYS_copy_file_range && file_of((int)v[2])) count(UNSUPPORTED, 1);
  return get_syscall()(number, v[0], v[1], v[2], v[3], v[4], v[5]);
}

// ---- clock ---------------------------------------------------------------------------------------------------------------------

static int64_t clock_offset_ms(void) {
  int64_t ms = is_on() ? setting(CLOCK_OFFSET_MS) : 0;
  if (ms != 0) count(CLOCK_READS, 1);
  return ms;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = get_clock_gettime()(clock, now);
  if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  int64_t ms = clock_offset_ms(), ns = now->tv_nsec + ms % 1000 * 1000000;
  now->tv_sec += ms / 1000 + (ns < 0 ? -1 : ns >= 1000000000);
  now->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int result = get_gettimeofday()(now, zone);
  if (result != 0) return result;
  int64_t ms = clock_offset_ms(), us = now->tv_usec + ms % 1000 * 1000;
  now->tv_sec += ms / 1000 + (us < 0 ? -1 : us >= 1000000);
  now->tv_usec = us < 0 ? us + 1000000 : us % 1000000;
  return result;
}

time_t time(time_t *to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}
