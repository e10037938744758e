/* Makes the loops of a communicator, and deals its operations to them. */
#include "worker/nccl_plugin/collnet/loops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/dtype.h"
#include "reduction_server/base/parse.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/group.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/collnet/agreement.h"
#include "worker/nccl_plugin/collnet/processors.h"

#define PROCESSORS_EACH 4
#define UNASKED_MAX     4u
/* Below, the change of threads is reckoned to cost more than it gains. */
#define LARGE_BYTES     ((size_t)128 << 10)

unsigned smd_loops_default(unsigned processors)
{
	unsigned count = processors / PROCESSORS_EACH;

	count = count < UNASKED_MAX ? count : UNASKED_MAX;
	return count ? count : 1;
}

int smd_loops_read(unsigned *wanted, struct smd_error *error)
{
	const char *text = getenv(SMD_LOOPS_VARIABLE);
	uint64_t count;

	*wanted = 0;
	if (!text || !*text) {
		return 0;
	}
	if (smd_parse_number(text, 1, SMD_LOOPS_MAX, &count)) {
		return smd_error_set(error, EINVAL,
			SMD_LOOPS_VARIABLE ": must be 1 to %d, got \"%s\"", SMD_LOOPS_MAX, text);
	}
	*wanted = (unsigned)count;
	return 0;
}

unsigned smd_loops_wire(const struct smd_config *config)
{
	return smd_nccl_devices_take_gpu_memory() ? SMD_FLOAT32 : config->wire_dtype;
}

bool smd_loops_narrow(unsigned wire)
{
	return wire != SMD_FLOAT32;
}

void smd_loops_describe_wire(const struct smd_config *config, char *text, size_t size)
{
	*text = '\0';
	if (smd_loops_narrow(smd_loops_wire(config))) {
		snprintf(text, size,
			"CollNet: float32 crosses as %s by SUMMAND_WIRE, and is rounded, in "
			"all-reduces of %d elements and more",
			smd_dtype_name(config->wire_dtype), SMD_WIRE_LEAST);
	} else if (smd_loops_narrow(config->wire_dtype)) {
		snprintf(text, size,
			"CollNet: float32 crosses as it is: SUMMAND_WIRE is for memory of the "
			"host, and network cards may read a GPU's");
	}
}

int smd_loops_want(struct smd_loops *loops, unsigned nodes, struct smd_error *error)
{
	int ret = smd_loops_read(&loops->wanted, error);

	loops->nodes = nodes;
	if (ret == 0 && loops->wanted == 0) {
		loops->wanted = smd_loops_default(smd_processors_own());
	}
	return ret;
}

/* Rounded up: a moment after it began all of the time is left. */
static unsigned seconds_until(uint64_t until_ns)
{
	uint64_t now = smd_clock_ns();

	return now < until_ns ? (unsigned)((until_ns - now + SMD_SECOND_NS - 1) / SMD_SECOND_NS) : 0;
}

static unsigned whole_seconds_until(uint64_t until_ns)
{
	uint64_t now = smd_clock_ns();

	return now < until_ns ? (unsigned)((until_ns - now) / SMD_SECOND_NS) : 0;
}

static int loops_hold_one(struct smd_loops *loops, const struct smd_nccl_device *device,
	unsigned left_s, struct smd_error *error)
{
	int ret;

	if (left_s == 0) {
		return smd_error_set(error, ETIMEDOUT, "no time is left");
	}
	ret = smd_shared_context_get(
		device, loops->held, left_s, &loops->each[loops->held].shared, error);
	loops->held += ret == 0;
	return ret;
}

int smd_loops_hold(struct smd_loops *loops, const struct smd_nccl_device *device, unsigned timeout_s,
	struct smd_error *error)
{
	uint64_t until_ns = smd_clock_ns() + timeout_s * SMD_SECOND_NS;

	while (loops->held < loops->wanted) {
		int ret = loops_hold_one(loops, device, seconds_until(until_ns), error);

		if (ret && loops->held) { /* so many are better than none */
			smd_nccl_log_info(NCCL_SUB_INIT | NCCL_SUB_NET,
				"CollNet: %u loops, and not %u: %s", loops->held, loops->wanted,
				error->text);
			return 0;
		}
		if (ret) {
			return ret;
		}
		if (!smd_context_streams(
			    smd_shared_context_get_context(loops->each[loops->held - 1].shared))) {
			return 0; /* no processor moves its bytes over a network */
		}
	}
	return 0;
}

int smd_loops_join(struct smd_loops *loops, unsigned count, const char *group, unsigned node,
	unsigned timeout_s, struct smd_error *error)
{
	uint64_t until_ns = smd_clock_ns() + timeout_s * SMD_SECOND_NS;

	for (loops->count = 0; loops->count < count; loops->count++) {
		unsigned i = loops->count;
		unsigned left_s = i ? whole_seconds_until(until_ns) : timeout_s;
		char name[SMD_AGREEMENT_GROUP_MAX + 4];
		int ret;

		if (i && left_s == 0) { /* the second vote does not wait for more */
			return 0;
		}
		if (i) {
			snprintf(name, sizeof(name), "%s/%u", group, i);
		} else {
			snprintf(name, sizeof(name), "%s", group);
		}
		ret = smd_comm_create_within(smd_shared_context_get_context(loops->each[i].shared),
			left_s, i > 0, name, (int)loops->nodes, (int)node,
			&loops->each[i].comm); /* not at the cost of others' first ones */
		if (ret && i) { /* servers may have memory for fewer groups */
			smd_nccl_log_info(NCCL_SUB_INIT | NCCL_SUB_NET,
				"CollNet: %u loops, and not %u: %s", i, count, smd_error_message());
			return 0;
		}
		if (ret) {
			return smd_error_set(error, -ret, "%s", smd_error_message());
		}
		/* The context may be older than what the variable says now, and nodes have
		 * compared. */
		smd_comm_set_wire(loops->each[i].comm, loops->wire);
	}
	return 0;
}

void smd_loops_keep(struct smd_loops *loops, unsigned count)
{
	for (; loops->held > count; loops->held--) {
		unsigned last = loops->held - 1;

		smd_comm_destroy(loops->each[last].comm);
		loops->each[last].comm = NULL;
		smd_shared_context_put(loops->each[last].shared);
	}
	loops->count = loops->count < count ? loops->count : count;
}

void smd_loops_fail(struct smd_loops *loops, int err, const char *text)
{
	for (unsigned i = 0; i < loops->count; i++) {
		smd_comm_fault(loops->each[i].comm, err, text);
	}
}

int smd_loops_register(struct smd_loops *loops, const void *user, void *base, size_t length,
	const struct smd_dmabuf *dmabuf)
{
	int ret = 0;
	unsigned i;

	for (i = 0; i < loops->held; i++) {
		ret = smd_context_register(smd_shared_context_get_context(loops->each[i].shared), user,
			base, length, dmabuf);
		if (ret) {
			break;
		}
	}
	while (ret && i-- > 0) {
		smd_context_deregister(smd_shared_context_get_context(loops->each[i].shared), user,
			base, length);
	}
	return ret;
}

void smd_loops_deregister(struct smd_loops *loops, const void *user, void *base, size_t length)
{
	for (unsigned i = 0; i < loops->held; i++) {
		smd_context_deregister(smd_shared_context_get_context(loops->each[i].shared), user,
			base, length);
	}
}

smd_comm *smd_loops_next(struct smd_loops *loops, size_t bytes)
{
	unsigned i = bytes < LARGE_BYTES ? 0 : loops->turn++ % loops->count;

	loops->each[i].operations++;
	return loops->each[i].comm;
}

static void loops_tell(const struct smd_loops *loops)
{
	char text[SMD_LOOPS_MAX * 24] = "";
	size_t used = 0;

	for (unsigned i = 0; i < loops->count && used < sizeof(text); i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%llu", i ? ", " : "",
			loops->each[i].operations);
	}
	smd_nccl_log_info(NCCL_SUB_INIT | NCCL_SUB_NET,
		"CollNet over %u nodes: its %u loops began %s operations", loops->nodes, loops->count,
		text);
}

void smd_loops_leave(struct smd_loops *loops)
{
	if (loops->count > 1 && loops->each[0].operations) {
		loops_tell(loops);
	}
	smd_loops_keep(loops, 0);
}
