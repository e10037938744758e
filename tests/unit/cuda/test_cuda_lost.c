/*
 * Small operations on device memory, while a server is lost that only some ranks have heard the
 * last result of: the others get it all the same, though those have returned
 * (specs/design/epochs.md).
 *
 * The lanes are the card's (card.h), which leaves device memory alone here: it goes through stages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/unit/cuda/card.h"
#include "tests/unit/cuda/device_pool.h"

enum { OPERATIONS = 12 };

#ifdef __SANITIZE_THREAD__
enum { LOSSES = 2 };
#else
enum { LOSSES = 6 };
#endif

/* Whose buffers are memory of a device. */
struct place {
	bool send[NRANKS];
	bool recv[NRANKS];
};

struct device_loss {
	struct pool pool;
	const struct place *place;
	unsigned server;
};

static void *end_muted(void *arg)
{
	struct device_loss *loss = arg;

	while (!card_counts().muted) {
		usleep(50);
	}
	pool_end_server(&loss->pool, loss->server, 1);
	return NULL;
}

static void run_one(struct pool_rank *rank, int k)
{
	const struct device_loss *loss = rank->argument;
	static const size_t counts[] = {50001, 1000, 90001, 20}; /* the third waits for all ranks */
	size_t count = counts[k % 3 + (k % 6 == 5)];
	int mine = rank->rank + 1;
	int root = k % NRANKS;
	bool is_root = rank->rank == root;
	struct buffer send;
	struct buffer recv;

	buffer_create(&send, loss->place->send[rank->rank], count, mine);
	buffer_create(&recv, loss->place->recv[rank->rank], count, -1);
	switch (k % 4) {
	case 0:
		CHECK(smd_allreduce(rank->comm, send.data, recv.data, count, SMD_INT32, SMD_SUM) ==
			0);
		buffer_end(&send, mine);
		buffer_end(&recv, SUM);
		break;
	case 1:
		CHECK(smd_allreduce(rank->comm, send.data, send.data, count, SMD_INT32, SMD_SUM) ==
			0);
		buffer_end(&send, SUM);
		buffer_end(&recv, -1);
		break;
	case 2:
		CHECK(smd_reduce(rank->comm, send.data, recv.data, count, SMD_INT32, SMD_SUM,
			      root) == 0);
		buffer_end(&send, mine);
		buffer_end(&recv, is_root ? SUM : -1);
		break;
	default:
		CHECK(smd_broadcast(rank->comm, send.data, count, SMD_INT32, root) == 0);
		buffer_end(&send, root + 1);
		buffer_end(&recv, -1);
		break;
	}
}

static void go_on(struct pool_rank *rank)
{
	for (int k = 0; k < OPERATIONS; k++) {
		run_one(rank, k);
	}
}

static void lose(const struct place *place)
{
	for (unsigned i = 0; i < LOSSES; i++) {
		struct device_loss loss = {.place = place, .server = i % 2};
		pthread_t thread;

		card_reset((struct card_plan){.refuse = -EOPNOTSUPP,
			.refuse_shard = -1,
			.mute_server = loss.server + 1,
			.mute_after = 1 + 10 * i});
		device_pool_start(&loss.pool);
		CHECK(pthread_create(&thread, NULL, end_muted, &loss) == 0);
		pool_run(&loss.pool, NRANKS, "lost", go_on, &loss);
		pthread_join(thread, NULL);
		pool_stop(&loss.pool);
	}
}

static const struct place everywhere = {{true, true, true}, {true, true, true}};

static void what_some_ranks_have_the_others_get(void **state)
{
	(void)state;
	lose(&everywhere);
}

static void whoever_has_memory_of_a_device(void **state)
{
	(void)state;
	lose(&(struct place){{false, true, false}, {false, true, false}});
	lose(&(struct place){{true, false, true}, {true, false, true}});
}

static void from_the_device_to_the_host_and_the_other_way(void **state)
{
	(void)state;
	lose(&(struct place){{true, true, false}, {false, false, true}});
	lose(&(struct place){{false, false, true}, {true, true, false}});
}

static void with_two_stages_too(void **state)
{
	(void)state;
	setenv("SUMMAND_STAGING_BYTES", "1", 1);
	lose(&everywhere);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, device_begin, device_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_some_ranks_have_the_others_get),
		TEST(whoever_has_memory_of_a_device),
		TEST(from_the_device_to_the_host_and_the_other_way),
		TEST(with_two_stages_too),
	};

	device_transport = "fault";
	gpu_open(FAKE_DRIVER);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
