/*
 * Buffers that are no memory of the process: the caller gets -EFAULT and a sentence that blames the
 * buffer, neither a signal nor a word against the reduction server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/allreduce/fixture.h"

enum { BYTES = 4 << 20, COUNT = BYTES / 4, HOLE = 2 << 20, PAGE = 4096, LITTLE = 64 };

static struct pool pool;

static int set_up(void **state)
{
	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pool_stop(&pool);
	return 0;
}

static float *map(int protection)
{
	void *memory = mmap(NULL, BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

static void check_says(const char *text)
{
	CHECK(strstr(smd_error_message(), text) != NULL);
	CHECK(strstr(smd_error_message(), "was lost") == NULL);
}

/* Before anything is sent, so that the communicator goes on. */
static void use_what_is_not_mapped(struct pool_rank *rank)
{
	float *good = map(PROT_READ | PROT_WRITE);
	float *bad = (float *)0x10000; /* where nothing is ever mapped, by no other thread either */

	if (rank->rank == 0) {
		CHECK(smd_allreduce(rank->comm, bad, good, COUNT, SMD_FLOAT32, SMD_SUM) == -EFAULT);
		check_says(
			"all-reduce in group unmapped: send must be memory that this process can "
			"read, got 4194304 bytes at 0x");
		CHECK(smd_allreduce(rank->comm, good, bad, COUNT, SMD_FLOAT32, SMD_SUM) == -EFAULT);
		check_says(
			"all-reduce in group unmapped: recv must be memory that this process can "
			"write");
	}
	CHECK(smd_allreduce(rank->comm, good, good, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
	munmap(good, BYTES);
}

static void memory_that_is_not_mapped_is_refused(void **state)
{
	(void)state;
	pool_run(&pool, 2, "unmapped", use_what_is_not_mapped, NULL);
}

/*
 * Each end of what is passed may be such that it cannot be used, and small and large memory may:
 * there the processor reads it, to encrypt or narrow it, or writes what came with a header.
 */
static void use_bad_ends(struct pool_rank *rank)
{
	static const size_t counts[] = {1, 9, 1024, 65536, HOLE / 4};
	float *good = map(PROT_READ | PROT_WRITE);
	float *half = map(PROT_READ | PROT_WRITE);
	float *bad = half + HOLE / 4; /* to the end */
	float *constant = map(PROT_READ);

	CHECK(mprotect(bad, BYTES - HOLE, PROT_NONE) == 0);
	for (size_t i = 0; rank->rank == 0 && i < sizeof(counts) / sizeof(counts[0]); i++) {
		size_t n = counts[i];

		CHECK(smd_allreduce(rank->comm, bad, good, n, SMD_FLOAT32, SMD_SUM) == -EFAULT);
		check_says("send must be memory that this process can read, got ");
		CHECK(smd_allreduce(rank->comm, good, bad, n, SMD_FLOAT32, SMD_SUM) == -EFAULT);
		check_says("recv must be memory that this process can write, got ");
		CHECK(smd_allreduce(rank->comm, good, constant, n, SMD_FLOAT32, SMD_SUM) ==
			-EFAULT);
		check_says("recv must be memory that this process can write, got ");
		CHECK(smd_allreduce(rank->comm, constant, constant, n, SMD_FLOAT32, SMD_SUM) ==
			-EFAULT);
		/* They end there. */
		CHECK(smd_allreduce(rank->comm, bad - n + 1, good, n, SMD_FLOAT32, SMD_SUM) ==
			-EFAULT);
		CHECK(smd_allreduce(rank->comm, good, bad - n + 1, n, SMD_FLOAT32, SMD_SUM) ==
			-EFAULT);
	}
	if (rank->rank == 0) { /* two pages, of which the second may only be read */
		CHECK(mprotect((char *)half + PAGE, PAGE, PROT_READ) == 0);
		CHECK(smd_allreduce(rank->comm, good, half + 512, 1024, SMD_FLOAT32, SMD_SUM) ==
			-EFAULT);
		check_says("recv must be memory that this process can write, got ");
	}
	CHECK(smd_allreduce(rank->comm, constant, good, 1024, SMD_FLOAT32, SMD_SUM) == 0);
	CHECK(smd_allreduce(rank->comm, bad - 1024, good, 1024, SMD_FLOAT32, SMD_SUM) == 0);
	munmap(constant, BYTES);
	munmap(half, BYTES);
	munmap(good, BYTES);
}

/* What is asked of memory changes nothing in it. */
static void use_what_ends_within_a_word(struct pool_rank *rank)
{
	unsigned char in[3][7] = {
		{1, 2, 3, 4, 5, 6, 7}, {9, 9, 9, 9, 9, 9, 9}, {7, 7, 7, 7, 7, 7, 7}};
	static const unsigned char around[7] = {7, 7, 7, 7, 7, 7, 7};

	CHECK(smd_allreduce(rank->comm, in[0], in[1], 7, SMD_UINT8, SMD_MAX) == 0);
	CHECK(memcmp(in[0], in[1], 7) == 0);
	CHECK(memcmp(in[2], around, 7) == 0);
}

static void memory_that_begins_or_ends_badly_is_refused(void **state)
{
	(void)state;
	pool_run(&pool, 2, "bad-ends", use_bad_ends, NULL);
	setenv("SUMMAND_WIRE", "bf16", 1);
	pool_run(&pool, 2, "bad-ends-narrow", use_bad_ends, NULL);
	unsetenv("SUMMAND_WIRE");
	pool_run(&pool, 2, "odd", use_what_ends_within_a_word, NULL);
}

#ifdef SMD_TLS
static void memory_that_is_to_be_encrypted_is_refused_too(void **state)
{
	static char every[] = "token";
	static struct smd_tokens tokens = {.every = every};
	const struct smd_server_config config = {.shards = 1, .tokens = &tokens, .encrypt = true};
	char path[] = "/tmp/summand-token-XXXXXX";
	struct pool encrypted;
	int fd;

	(void)state;
	if (pool_is_shm()) {
		skip(); /* which is not encrypted */
	}
	fd = mkstemp(path);
	assert_int_equal(write(fd, every, strlen(every)), strlen(every));
	close(fd);
	setenv("SUMMAND_TOKEN_FILE", path, 1);
	setenv("SUMMAND_TLS", "1", 1);
	pool_start(&encrypted, "tcp", 1, &config);
	pool_run(&encrypted, 2, "encrypted", use_bad_ends, NULL);
	pool_stop(&encrypted);
	unsetenv("SUMMAND_TLS");
	unsetenv("SUMMAND_TOKEN_FILE");
	unlink(path);
}
#endif

/* ---- a page in the middle ---- */

struct bad {
	const char *group;
	int protection; /* of a page in the middle; HOLED: it is not mapped */
	bool receives;
	bool small; /* it begins a little before that page, and ends a little behind it */
};

enum { HOLED = -1 };

static void spoil(float *memory, int protection)
{
	char *page = (char *)memory + HOLE;

	CHECK((protection == HOLED ? munmap(page, PAGE) : mprotect(page, PAGE, protection)) == 0);
}

/* What was not passed before is looked at throughout, before anything is sent. */
static void use_a_new_one(struct pool_rank *rank)
{
	const struct bad *bad = rank->argument;
	float *good = map(PROT_READ | PROT_WRITE);
	float *holed = map(PROT_READ | PROT_WRITE);
	size_t before = bad->small ? HOLE - LITTLE : 0;
	size_t count = bad->small ? (PAGE + 2 * LITTLE) / sizeof(float) : COUNT;

	spoil(holed, bad->protection);
	if (rank->rank == 0) {
		CHECK(smd_allreduce(rank->comm,
			      bad->receives ? good : holed + before / sizeof(float),
			      bad->receives ? holed + before / sizeof(float) : good, count,
			      SMD_FLOAT32, SMD_SUM) == -EFAULT);
		check_says(bad->receives ? "recv must be memory that this process can write, got "
					 : "send must be memory that this process can read, got ");
	}
	CHECK(smd_allreduce(rank->comm, good, good, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
	munmap(holed, BYTES);
	munmap(good, BYTES);
}

/* It is asked whether a page of one that was passed before is gone. */
static void use_one_that_was_good(struct pool_rank *rank)
{
	float *good = map(PROT_READ | PROT_WRITE);
	float *holed = map(PROT_READ | PROT_WRITE);

	for (unsigned i = 0; i < 3; i++) {
		CHECK(smd_allreduce(rank->comm, holed, good, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
		CHECK(smd_allreduce(rank->comm, good, holed, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
	}
	spoil(holed, HOLED);
	if (rank->rank == 0) {
		CHECK(smd_allreduce(rank->comm, holed, good, COUNT, SMD_FLOAT32, SMD_SUM) ==
			-EFAULT);
		CHECK(smd_allreduce(rank->comm, good, holed, COUNT, SMD_FLOAT32, SMD_SUM) ==
			-EFAULT);
	}
	CHECK(smd_allreduce(rank->comm, good, good, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
	munmap(holed, BYTES);
	munmap(good, BYTES);
}

static void a_hole_is_found_before_anything_is_sent(void **state)
{
	static const struct bad cases[] = {
		{"new-hole-in", HOLED, false, false},
		{"new-hole-out", HOLED, true, false},
		{"new-hole-small-in", HOLED, false, true},
		{"new-hole-small-out", HOLED, true, true},
		{"new-none-in", PROT_NONE, false, false},
		{"new-none-out", PROT_NONE, true, false},
		{"new-constant-out", PROT_READ, true, false},
		{"new-constant-small-out", PROT_READ, true, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pool_run(&pool, 2, cases[i].group, use_a_new_one, (void *)&cases[i]);
	}
	pool_run(&pool, 2, "was-good", use_one_that_was_good, NULL);
}

/*
 * What was passed before, and protected since, only the kernel knows, when half of it is on its
 * way: the lane cannot be used any more. Not from rank to rank, where a processor sums it.
 */
static void use_a_protected_one(struct pool_rank *rank)
{
	const struct bad *bad = rank->argument;
	float *good = map(PROT_READ | PROT_WRITE);
	float *holed = map(PROT_READ | PROT_WRITE);
	size_t before = bad->small ? HOLE - LITTLE : 0;
	size_t count = bad->small ? (PAGE + 2 * LITTLE) / sizeof(float) : COUNT;
	int ret;

	const float *send = bad->receives ? good : holed + before / sizeof(float);
	float *recv = bad->receives ? holed : good;

	for (size_t i = 0; i < COUNT; i++) { /* the processor looks at zeros, and fills them in */
		good[i] = 1;
		holed[i] = 1;
	}
	CHECK(smd_allreduce(rank->comm, send, recv, count, SMD_FLOAT32, SMD_SUM) == 0);
	spoil(holed, bad->protection);
	if (rank->rank == 0) {
		ret = smd_allreduce(rank->comm, send, recv, count, SMD_FLOAT32, SMD_SUM);
		CHECK(ret == -EFAULT);
		check_says("(rank-0) passed a buffer whose memory it does not have, or may not use "
			   "so: Bad address, ");
	} else {
		ret = smd_allreduce(rank->comm, good, good, count, SMD_FLOAT32, SMD_SUM);
		/* Of a bad receive buffer it may have its own result. */
		CHECK(ret < 0 || bad->receives);
		CHECK(ret == 0 || strstr(smd_error_message(), "rank 0 (rank-0)"));
	}
	munmap(holed, BYTES);
	munmap(good, BYTES);
}

static void memory_that_the_kernel_refuses_is_the_callers(void **state)
{
	static const struct bad cases[] = {
		{"a hole in a large one", PROT_NONE, false, false},
		{"a hole in a small one", PROT_NONE, false, true},
		{"may not be written", PROT_READ, true, false},
	};

	(void)state;
	if (getenv("SUMMAND_TEST_EXCHANGE") || pool_is_shm()) {
		skip(); /* a processor copies there */
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pool_run(&pool, 2, cases[i].group, use_a_protected_one, (void *)&cases[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_that_is_not_mapped_is_refused),
		cmocka_unit_test(a_hole_is_found_before_anything_is_sent),
		cmocka_unit_test(memory_that_the_kernel_refuses_is_the_callers),
		cmocka_unit_test(memory_that_begins_or_ends_badly_is_refused),
#ifdef SMD_TLS
		cmocka_unit_test(memory_that_is_to_be_encrypted_is_refused_too),
#endif
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
