/* Plays a transport in moods, and what happens to a rank that has lanes over it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/pairing.h"

enum { COUNT = 50000 };

struct smd_transport_ops pairing_moody;
struct pairing_moods pairing_moods;

static unsigned moody_making_s(void)
{
	return PAIRING_SILENT_S;
}

static uint16_t moody_kinds(void)
{
	return SMD_HELLO_ROCE;
}

static int moody_offer(struct event_base *base, const struct smd_lane *carrier, unsigned shard,
	const struct smd_offer *other, uint16_t kinds, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_offer *own, struct smd_error *error)
{
	atomic_uint *left = other ? &pairing_moods.workers : &pairing_moods.servers;
	int ret;

	if (!other) {
		pairing_moods.kinds = kinds;
	}
	if (atomic_load(left)) {
		atomic_fetch_sub(left, 1);
		return smd_error_set(error, -pairing_moods.err, "it is in no mood");
	}
	ret = smd_transport_find("carried")->offer(
		base, carrier, shard, other, kinds, callbacks, owner, out, own, error);
	if (ret == 0) {
		(*out)->ops = &pairing_moody;
	}
	return ret;
}

unsigned __real_smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX]);

unsigned __wrap_smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX]);
/* As "auto" has RDMA and TCP. */
unsigned __wrap_smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX])
{
	if (strcmp(name, "either") != 0) {
		return __real_smd_transport_select(name, out);
	}
	out[0] = &pairing_moody;
	out[1] = smd_transport_find("tcp");
	return 2;
}

int pairing_set_up(void **state)
{
	(void)state;
	pairing_moody = *smd_transport_find("carried");
	pairing_moody.offer = moody_offer;
	pairing_moody.kinds = moody_kinds;
	pairing_moody.making_s = moody_making_s;
	smd_carried_trials = (struct smd_carried_trials){0};
	return 0;
}

struct smd_server_config pairing_configure(
	unsigned shards, bool also, const struct smd_tokens *tokens)
{
	return (struct smd_server_config){.shards = shards,
		.chunk_bytes = PAIRING_CHUNK,
		.memory_bytes = (size_t)shards * 16 * SMD_BUFFER_POOL_STRIDE(PAIRING_CHUNK),
		.transports = {[1] = {also && !smd_carried_trials.itself ? &pairing_moody : NULL,
				       true}},
		.tokens = tokens,
		.greeting_s = 2};
}

void pairing_start(struct pool *pool, const char *transport, unsigned shards, bool also,
	const struct smd_tokens *tokens)
{
	const struct smd_server_config config = pairing_configure(shards, also, tokens);

	pool_start(pool, transport, 1, &config);
}

int pairing_work(const struct pool *pool, const char *transport, unsigned timeout_s)
{
	const struct smd_context_options options = {.servers = pool->list,
		.replica = "worker",
		.job = "job",
		.transport = transport,
		.connect_timeout_s = timeout_s};
	static int32_t values[COUNT];
	smd_context *context;
	smd_comm *comm;
	int ret = smd_context_create(&options, &context);

	if (ret) {
		return ret;
	}
	for (int i = 0; i < COUNT; i++) {
		values[i] = i;
	}
	assert_int_equal(smd_comm_create(context, "group", 1, 0, &comm), 0);
	assert_int_equal(smd_allreduce(comm, values, values, COUNT, SMD_INT32, SMD_SUM), 0);
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(values[i], i);
	}
	smd_comm_destroy(comm);
	smd_context_destroy(context);
	return 0;
}

void pairing_return_server(
	struct pool *pool, const struct smd_server_config *config, unsigned times)
{
	pool_end_server(pool, 0, 1);
	pool_restart_server(pool, 0, config);
	while (capture_count("is there again") < times) {
		usleep(10000);
	}
}
void pairing_return_twice(atomic_uint *away)
{
	const struct smd_server_config both[] = {
		pairing_configure(1, true, NULL), pairing_configure(1, false, NULL)};
	struct smd_context_options options = {
		.replica = "worker", .job = "job", .transport = "either", .connect_timeout_s = 60};
	const unsigned first = smd_carried_trials.itself ? 2 : 1;
	smd_context *context;
	struct pool pool;

	pool_start(&pool, "tcp", 2, both);
	options.servers = pool.list;
	capture_begin();
	assert_int_equal(smd_context_create(&options, &context), 0);
	assert_int_equal(capture_count("goes over carried"), first);
	for (unsigned i = 0; i < 2; i++) {
		*away = i == 0;
		pairing_return_server(&pool, &both[0], 1 + i);
		assert_int_equal(*away, 0);
		assert_int_equal(capture_count("goes over carried"), first + i);
	}
	smd_context_destroy(context);
	capture_end();
	pool_stop(&pool);
}
