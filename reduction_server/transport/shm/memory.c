/* Makes, checks and maps the memory of lanes, and counts it. */
#include "reduction_server/transport/shm/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "reduction_server/base/available.h"
#include "reduction_server/transport/shared_bytes.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* since Linux 6.3 */
#endif

#define WORDS_SIZE 4096u
#define ALL_SHARE  8  /* of what is available, all lanes take no more than one part of so many; */
#define LANE_SHARE 32 /* of what is left of that, one lane */
#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW)

_Static_assert(2 * sizeof(struct shm_words) <= WORDS_SIZE, "the words have room");

uint32_t smd_shm_memory_ring(uint64_t available, uint64_t taken)
{
	uint64_t all = available / ALL_SHARE;
	uint64_t most = taken < all ? (all - taken) / LANE_SHARE / 2 : 0;
	uint32_t ring = SMD_SHM_RING_MOST;

	while (ring > most) {
		ring /= 2;
	}
	return ring < SMD_SHM_RING_LEAST ? 0 : ring;
}

bool smd_shm_memory_is_ring(uint32_t bytes)
{
	return bytes >= SMD_SHM_RING_LEAST && bytes <= SMD_SHM_RING_MOST &&
	       (bytes & (bytes - 1)) == 0;
}

static size_t length_of(uint32_t ring)
{
	return WORDS_SIZE + 2 * (size_t)ring;
}

uint32_t smd_shm_memory_reserve(struct shm_memory *memory)
{
	uint32_t ring = smd_shm_memory_ring(smd_memory_available(), smd_shared_bytes());

	if (ring) {
		memory->counted = length_of(ring);
		smd_shared_bytes_add(memory->counted);
	}
	return ring;
}

static int map(struct shm_memory *memory, uint32_t ring, int fd, struct smd_error *error)
{
	size_t length = length_of(ring);
	void *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (bytes == MAP_FAILED) {
		return smd_error_set(error, errno, "shm: cannot map %zu bytes: %m", length);
	}
	/* A forked child has no use for the lane. */
	(void)madvise(bytes, length, MADV_DONTFORK);
	smd_shared_bytes_add(length);
	smd_shared_bytes_take(memory->counted);
	*memory = (struct shm_memory){bytes, length, length, ring, -1};
	return 0;
}

static int make_file(void)
{
	int fd = memfd_create("summand", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create("summand", MFD_CLOEXEC | MFD_ALLOW_SEALING)
					 : fd;
}

/* To make a file that is longer than the process may have ends it. */
static int check_limit(uint32_t ring, struct smd_error *error)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < length_of(ring)) {
		return smd_error_set(error, EFBIG,
			"shm: the limit of files (ulimit -f) must be %zu bytes at least, got %llu",
			length_of(ring), (unsigned long long)limit.rlim_cur);
	}
	return 0;
}

int smd_shm_memory_make(struct shm_memory *memory, uint32_t ring, struct smd_error *error)
{
	int ret = check_limit(ring, error);
	int fd;

	if (ret) {
		return ret;
	}
	fd = make_file();
	if (fd < 0) {
		return smd_error_set(error, errno, "shm: cannot make memory: %m");
	}
	if (ftruncate(fd, (off_t)length_of(ring)) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
		ret = smd_error_set(error, errno, "shm: cannot make memory: %m");
	} else {
		ret = map(memory, ring, fd, error);
	}
	if (ret) {
		close(fd);
		return ret;
	}
	memory->file = fd;
	return 0;
}

/* To touch memory of a file that is cut, or of huge pages that are gone, ends the process. */
static int check(uint32_t ring, int fd, struct smd_error *error)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs system;
	struct stat file;

	if (seals < 0 || (seals & SEALS) != SEALS) {
		return smd_error_set(
			error, EPROTO, "shm: memory must be sealed against shrinking and growing");
	}
	if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) {
		return smd_error_set(error, EPROTO, "shm: memory must be of tmpfs");
	}
	if (fstat(fd, &file) != 0 || file.st_size != (off_t)length_of(ring)) {
		return smd_error_set(error, EPROTO, "shm: memory must be of %zu bytes, got %lld",
			length_of(ring), (long long)file.st_size);
	}
	return 0;
}

void smd_shm_memory_passed(struct shm_memory *memory)
{
	close(memory->file);
	memory->file = -1;
}

int smd_shm_memory_take(struct shm_memory *memory, uint32_t ring, int fd, struct smd_error *error)
{
	int ret = check(ring, fd, error);

	return ret ? ret : map(memory, ring, fd, error);
}

void smd_shm_memory_free(struct shm_memory *memory)
{
	smd_shared_bytes_take(memory->counted);
	if (memory->bytes) {
		munmap(memory->bytes, memory->length);
		if (memory->file >= 0) {
			close(memory->file);
		}
	}
	*memory = (struct shm_memory){NULL, 0, 0, 0, -1};
}

struct shm_ring smd_shm_memory_ring_of(const struct shm_memory *memory, bool back)
{
	struct shm_words *words = (struct shm_words *)memory->bytes;
	uint32_t at = WORDS_SIZE + (back ? memory->ring : 0);

	return smd_shm_ring_of(words + back, memory->bytes + at, memory->ring);
}
