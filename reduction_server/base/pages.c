/* Maps memory in the largest pages that are to be had. */
#include "reduction_server/base/pages.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reduction_server/base/numa.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static size_t round_up(size_t bytes)
{
	return (bytes + SMD_PAGES_HUGE - 1) & ~(SMD_PAGES_HUGE - 1);
}

/*
 * Of those that were set aside; false: there are not so many. All are touched now, because what a
 * control group does not let us have would else end the process when it is.
 */
static bool map_reserved(struct smd_pages *pages, size_t bytes)
{
	size_t mapped = round_up(bytes);
	void *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (memory == MAP_FAILED) {
		return false;
	}
	if (madvise(memory, mapped, MADV_POPULATE_WRITE) != 0) {
		munmap(memory, mapped);
		return false;
	}
	*pages = (struct smd_pages){memory, SMD_PAGES_RESERVED, memory, mapped};
	return true;
}

int smd_pages_map(struct smd_pages *pages, size_t bytes)
{
	bool large = bytes >= SMD_PAGES_HUGE;
	size_t mapped = large ? round_up(bytes) + SMD_PAGES_HUGE : bytes;
	uintptr_t begin;
	void *mapping;

	if (large && map_reserved(pages, bytes)) {
		return 0;
	}
	mapping = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapping == MAP_FAILED) {
		return -ENOMEM;
	}
	begin = large ? round_up((uintptr_t)mapping) : (uintptr_t)mapping;
	*pages = (struct smd_pages){(uint8_t *)begin, SMD_PAGES_SMALL, (uint8_t *)mapping, mapped};
	if (large && madvise(pages->memory, round_up(bytes), MADV_HUGEPAGE) == 0) {
		pages->kind = SMD_PAGES_TRANSPARENT;
	}
	return 0;
}

int smd_pages_map_near(struct smd_pages *pages, size_t bytes, int node)
{
	int ret = smd_pages_map(pages, bytes);

	if (ret == 0) { /* where that may not be said, it comes from where it is touched */
		(void)smd_numa_bind(pages->memory, bytes, node);
	}
	return ret;
}

void smd_pages_unmap(struct smd_pages *pages)
{
	munmap(pages->mapping, pages->mapped);
}

void smd_pages_populate(void *memory, size_t bytes)
{
	uintptr_t at = (uintptr_t)memory & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	uintptr_t end = (uintptr_t)memory + bytes;
	int ret = 0;

	/* Who maps memory meanwhile waits for one step. */
	while (ret == 0 && at < end) {
		size_t step = end - at < SMD_PAGES_HUGE ? end - at : SMD_PAGES_HUGE;

		ret = madvise((void *)at, step, MADV_POPULATE_WRITE);
		at += step;
	}
}

const char *smd_pages_name(enum smd_pages_kind kind)
{
	static const char *const names[] = {
		[SMD_PAGES_SMALL] = "ordinary pages",
		[SMD_PAGES_TRANSPARENT] = "transparent huge pages",
		[SMD_PAGES_RESERVED] = "huge pages that were set aside",
	};

	return names[kind];
}
