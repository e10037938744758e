/*
 * Calls of NCCL without what they must have: each is refused, says what it lacks where NCCL's user
 * sees it, and leaves what it was to fill.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/collnet/collnet.h"
#include "worker/nccl_plugin/collnet/comm.h"
#include "worker/nccl_plugin/device/device.h"
#include "worker/nccl_plugin/net/net.h"

static char told[512];
static unsigned warnings;

__attribute__((format(printf, 5, 6))) static void keep(enum nccl_log_level level,
	unsigned long subsystems, const char *file, int line, const char *format, ...)
{
	va_list args;

	(void)subsystems;
	(void)file;
	(void)line;
	if (level == NCCL_LOG_WARN) {
		va_start(args, format);
		vsnprintf(told, sizeof(told), format, args);
		va_end(args);
		warnings++;
	}
}

static int set_up(void **state)
{
	(void)state;
	smd_nccl_log_open(keep);
	return 0;
}

static void refused_at(int result, const char *text, int line)
{
	if (result != NCCL_INVALID_ARGUMENT || warnings != 1 || !strstr(told, text)) {
		fail_msg("line %d: NCCL_INVALID_ARGUMENT and one line with \"%s\" are due, got %d "
			 "and %u lines, \"%s\"",
			line, text, result, warnings, told);
	}
	warnings = 0;
	told[0] = '\0';
}

#define refused(call, text) refused_at(call, text, __LINE__)

static char something[256]; /* stands for what is not looked at before the rest is there */

static void point_to_point(void **state)
{
	void *out = something;
	void *data[1] = {something};
	size_t sizes[1] = {1};
	int tags[1] = {0};
	int done = 7;

	(void)state;
	refused(smd_net_listen(0, NULL, &out), "listen: the handle must not be NULL");
	refused(smd_net_listen(0, something, NULL), "listen: the result must not be NULL");
	refused(smd_net_connect(0, NULL, &out), "connect: the handle must not be NULL");
	refused(smd_net_connect(0, something, NULL), "connect: the result must not be NULL");
	refused(smd_net_accept(NULL, &out), "accept: the listening comm must not be NULL");
	refused(smd_net_accept(something, NULL), "accept: the result must not be NULL");
	refused(smd_net_register(NULL, something, 1, NCCL_PTR_HOST, &out),
		"regMr: the comm must not be NULL");
	refused(smd_net_register(something, something, 1, NCCL_PTR_HOST, NULL),
		"regMr: the result must not be NULL");
	refused(smd_net_register_dmabuf(NULL, something, 1, NCCL_PTR_CUDA, 0, 0, &out),
		"regMrDmaBuf: the comm must not be NULL");
	refused(smd_net_deregister(NULL, something), "deregMr: the comm must not be NULL");
	refused(smd_net_send(NULL, something, 1, 0, NULL, &out),
		"isend: the comm must not be NULL");
	refused(smd_net_send(something, something, 1, 0, NULL, NULL),
		"isend: the request must not be NULL");
	refused(smd_net_send(something, NULL, 1, 0, NULL, &out),
		"isend: the data must not be NULL");
	refused(smd_net_receive(NULL, 1, data, sizes, tags, NULL, &out),
		"irecv: the comm must not be NULL");
	refused(smd_net_receive(something, 1, NULL, sizes, tags, NULL, &out),
		"irecv: the data must not be NULL");
	refused(smd_net_receive(something, 1, data, NULL, tags, NULL, &out),
		"irecv: the sizes must not be NULL");
	refused(smd_net_receive(something, 1, data, sizes, NULL, NULL, &out),
		"irecv: the tags must not be NULL");
	refused(smd_net_receive(something, 1, data, sizes, tags, NULL, NULL),
		"irecv: the request must not be NULL");
	refused(smd_net_flush(something, 0, NULL, NULL, NULL, NULL),
		"iflush: the request must not be NULL");
	refused(smd_net_test(NULL, &done, NULL), "test: the request must not be NULL");
	refused(smd_net_test(something, NULL, NULL), "test: the result must not be NULL");
	refused(smd_net_close_send(NULL), "closeSend: the comm must not be NULL");
	refused(smd_net_close_receive(NULL), "closeRecv: the comm must not be NULL");
	refused(smd_net_close_listen(NULL), "closeListen: the listening comm must not be NULL");
	assert_int_equal(done, 7);
}

static void collnet(void **state)
{
	void *out = something;
	void *handles[1] = {something};
	struct nccl_sge_v9 part = {NULL, something, 1};
	int done = 7;

	(void)state;
	refused(smd_collnet_listen(0, NULL, &out), "listen: the handle must not be NULL");
	refused(smd_collnet_listen(0, something, NULL), "listen: the result must not be NULL");
	refused(smd_collnet_connect(handles, 1, 0, NULL, &out),
		"connect: the listening comm must not be NULL");
	refused(smd_collnet_register(NULL, something, 1, NCCL_PTR_HOST, &out),
		"regMr: the comm must not be NULL");
	refused(smd_collnet_register(something, something, 1, NCCL_PTR_HOST, NULL),
		"regMr: the result must not be NULL");
	refused(smd_collnet_register_dmabuf(NULL, something, 1, NCCL_PTR_CUDA, 0, 0, &out),
		"regMrDmaBuf: the comm must not be NULL");
	refused(smd_collnet_deregister(NULL, something), "deregMr: the comm must not be NULL");
	refused(smd_collnet_deregister(something, NULL), "deregMr: the memory must not be NULL");
	refused(smd_collnet_allreduce(NULL, something, something, 1, 0, 0, NULL, NULL, &out),
		"iallreduce: the comm must not be NULL");
	refused(smd_collnet_allreduce(something, something, something, 1, 0, 0, NULL, NULL, NULL),
		"iallreduce: the request must not be NULL");
	refused(smd_collnet_allgather(NULL, something, 1, &part, 1, 0, 1, NULL, &out),
		"iallgather: the comm must not be NULL");
	refused(smd_collnet_allgather(something, something, 1, NULL, 1, 0, 1, NULL, &out),
		"iallgather: the parts must not be NULL");
	refused(smd_collnet_reducescatter(NULL, 1, &part, something, 1, 0, 1, 0, 0, NULL, &out),
		"ireducescatter: the comm must not be NULL");
	refused(smd_collnet_reducescatter(
			something, 1, &part, something, 1, 0, 1, 0, 0, NULL, NULL),
		"ireducescatter: the request must not be NULL");
	refused(smd_collnet_flush(NULL, NULL, &out), "iflush: the comm must not be NULL");
	refused(smd_collnet_test(NULL, &done, NULL), "test: the request must not be NULL");
	refused(smd_collnet_test(something, NULL, NULL), "test: the result must not be NULL");
	refused(smd_collnet_reduce_support(0, 0, NULL),
		"reduceSupport: the result must not be NULL");
	refused(smd_collnet_close(NULL), "closeColl: the comm must not be NULL");
	refused(smd_collnet_close_listen(NULL), "closeListen: the listening comm must not be NULL");
	assert_int_equal(done, 7);
}

extern const struct nccl_collnet_v6 ncclCollNetPlugin_v6;
extern const struct nccl_collnet_v8 ncclCollNetPlugin_v8;

/* Sizes and counts were int in older tables: a negative one is not a very large one. */
static void negative_sizes(void **state)
{
	struct smd_coll *coll = smd_coll_create(1, 0);
	void *out = something;

	(void)state;
	assert_non_null(coll);
	coll->err = -ECONNRESET; /* what is begun all the same says so */
	assert_int_equal(ncclCollNetPlugin_v6.regMr(coll, something, -1, NCCL_PTR_HOST, &out),
		NCCL_INVALID_ARGUMENT);
	assert_int_equal(ncclCollNetPlugin_v6.iallreduce(
				 coll, something, something, -1, 0, 0, NULL, NULL, &out),
		NCCL_INVALID_ARGUMENT);
	assert_int_equal(ncclCollNetPlugin_v8.iallreduce(
				 coll, something, something, -1, 0, 0, NULL, NULL, &out),
		NCCL_INVALID_ARGUMENT);
	assert_ptr_equal(out, something);
	smd_coll_destroy(coll);
}

static void properties(void **state)
{
	(void)state;
	refused(smd_nccl_device_props_v6(0, NULL), "getProperties: the result must not be NULL");
	refused(smd_nccl_device_props_v8(0, NULL), "getProperties: the result must not be NULL");
	refused(smd_nccl_device_props_v9(0, NULL), "getProperties: the result must not be NULL");
	refused(smd_nccl_device_props_v11(0, NULL), "getProperties: the result must not be NULL");
	refused(smd_nccl_device_props_v12(0, NULL), "getProperties: the result must not be NULL");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(point_to_point),
		cmocka_unit_test(collnet),
		cmocka_unit_test(negative_sizes),
		cmocka_unit_test(properties),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
