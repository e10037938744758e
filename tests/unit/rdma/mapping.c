/* Makes mappings for tests. */
#include "tests/unit/rdma/mapping.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

size_t mapping_page;

uint8_t *mapping_make(int flags)
{
	uint8_t *address = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(address, MAP_FAILED);
	memset(address, 1, LENGTH);
	return address;
}

uint8_t *mapping_new(void)
{
	return mapping_make(MAP_PRIVATE);
}

uint8_t *mapping_at(void *address)
{
	uint8_t *got = mmap(address, LENGTH, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	assert_ptr_equal(got, address);
	return got;
}

void *mapping_unwatchable(void)
{
	void *address = (void *)getauxval(AT_SYSINFO_EHDR);

	if (!address) {
		print_message("this machine has no vDSO\n");
		skip();
	}
	return address;
}
