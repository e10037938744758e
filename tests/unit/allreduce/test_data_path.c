/*
 * On its data path a shard's thread allocates nothing, takes no lock and logs nothing: counted, by
 * putting functions of our own in front of the C library's for everything that runs in this
 * process, libevent included.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { NUMBER = 9, RANKS = 3, CHUNK = 256 << 10, WARM_UP = 60, ROUNDS = 600 };

/* ---- what is counted ---- */

static atomic_bool counting;
static atomic_ulong allocations;
static atomic_ulong frees;
static atomic_ulong locks;
static atomic_ulong writes;
static atomic_uint threads; /* made since the last reset; the first is the shard's */
static _Thread_local bool on_shard;

static void count(atomic_ulong *counter)
{
	if (on_shard && atomic_load(&counting)) {
		atomic_fetch_add(counter, 1);
	}
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *memory);

void *malloc(size_t size)
{
	count(&allocations);
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	count(&allocations);
	return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	count(&allocations);
	return __libc_realloc(old, size);
}

void free(void *memory)
{
	count(&frees);
	__libc_free(memory);
}

/* The C library's own, behind ours. */
#define NEXT(name) ((__typeof__(&name))next_of(#name))

static void *next_of(const char *name)
{
	void *next = dlsym(RTLD_NEXT, name);

	if (!next) {
		abort();
	}
	return next;
}

int pthread_mutex_lock(pthread_mutex_t *lock)
{
	static __typeof__(&pthread_mutex_lock) next;

	if (!next) {
		next = NEXT(pthread_mutex_lock);
	}
	count(&locks);
	return next(lock);
}

/* A line of the log is one of these; frames leave by sendmsg(). */
ssize_t write(int fd, const void *bytes, size_t length)
{
	static __typeof__(&write) next;

	if (!next) {
		next = NEXT(write);
	}
	count(&writes);
	return next(fd, bytes, length);
}

struct body {
	void *(*run)(void *arg);
	void *arg;
};

static void *run_on_shard(void *arg)
{
	struct body body = *(struct body *)arg;

	__libc_free(arg);
	on_shard = true;
	return body.run(body.arg);
}

int pthread_create(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *arg), void *arg)
{
	__typeof__(&pthread_create) next = NEXT(pthread_create);
	struct body *body;

	if (atomic_fetch_add(&threads, 1)) {
		return next(thread, attributes, run, arg);
	}
	body = __libc_malloc(sizeof(*body));
	*body = (struct body){run, arg};
	return next(thread, attributes, run_on_shard, body);
}

/* ---- what is done meanwhile ---- */

static struct pool pool;
static struct raw ranks[RANKS];
static uint64_t ordinal;

static int set_up(void **state)
{
	/* One server of one shard, that has no reason to say anything by itself. */
	const struct smd_server_config config = {
		.shards = 1, .chunk_bytes = CHUNK, .heartbeat_ms = 3600000, .late_s = 3600};

	(void)state;
	atomic_store(&threads, 0);
	setenv("SUMMAND_LOG", "debug", 1);
	pool_start(&pool, "tcp", 1, &config);
	for (unsigned r = 0; r < RANKS; r++) {
		raw_open(&ranks[r], &pool, 0);
		raw_greet(&ranks[r], "counted");
		raw_join(&ranks[r], NUMBER, "data path", RANKS, r);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		raw_expect(&ranks[r], SMD_FRAME_JOINED);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (unsigned r = 0; r < RANKS; r++) {
		raw_leave(&ranks[r], NUMBER, r);
		raw_close(&ranks[r]);
	}
	pool_stop(&pool);
	return 0;
}

/* Small and large, of every collective; a large result does not fit into a socket at once. */
static void do_rounds(unsigned rounds)
{
	static const uint32_t lengths[] = {4, 4096, CHUNK, 0};
	static uint8_t values[CHUNK];

	for (unsigned k = 0; k < rounds; k++, ordinal++) {
		uint32_t length = lengths[ordinal / SMD_COLLECTIVE_END % 4];
		unsigned collective = ordinal % SMD_COLLECTIVE_END;
		unsigned root = collective == SMD_COLLECTIVE_ALLREDUCE ? 0 : ordinal % RANKS;

		for (unsigned r = 0; r < RANKS; r++) {
			struct smd_frame frame = raw_input(NUMBER, r, ordinal, length / 4);

			frame.collective = (uint8_t)collective;
			frame.root = (uint16_t)root;
			raw_send(&ranks[r], frame, values,
				smd_collective_sends(collective, root, r) ? length : 0);
		}
		for (unsigned r = 0; r < RANKS; r++) {
			raw_expect(&ranks[r], SMD_FRAME_RESULT);
		}
	}
}

static void the_data_path_allocates_locks_and_logs_nothing(void **state)
{
	(void)state;
	do_rounds(WARM_UP);
	atomic_store(&counting, true);
	do_rounds(ROUNDS);
	atomic_store(&counting, false);
	assert_int_equal(atomic_load(&allocations), 0);
	assert_int_equal(atomic_load(&frees), 0);
	assert_int_equal(atomic_load(&locks), 0);
	assert_int_equal(atomic_load(&writes), 0);
}

/* A JOIN does all of it, so what is counted above would be seen. */
static void what_is_counted_is_seen(void **state)
{
	struct raw *raw = &ranks[0];

	(void)state;
	atomic_store(&counting, true);
	raw_join(raw, NUMBER + 1, "counted", 1, 0);
	raw_expect(raw, SMD_FRAME_JOINED);
	raw_leave(raw, NUMBER + 1, 0);
	raw_join(raw, NUMBER + 1, "again", 1, 0);
	raw_expect(raw, SMD_FRAME_JOINED);
	atomic_store(&counting, false);
	raw_leave(raw, NUMBER + 1, 0);
	assert_true(atomic_load(&allocations) > 0);
	assert_true(atomic_load(&frees) > 0);
	assert_true(atomic_load(&writes) > 0);
}

/* Its only lock is that of the shard's inbox. */
static void a_lane_that_comes_takes_a_lock(void **state)
{
	struct raw raw;

	(void)state;
	atomic_store(&counting, true);
	raw_open(&raw, &pool, 0);
	raw_greet(&raw, "another");
	atomic_store(&counting, false);
	assert_true(atomic_load(&locks) > 0);
	raw_close(&raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_data_path_allocates_locks_and_logs_nothing),
		cmocka_unit_test(what_is_counted_is_seen),
		cmocka_unit_test(a_lane_that_comes_takes_a_lock),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
