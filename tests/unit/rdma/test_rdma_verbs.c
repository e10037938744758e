/* What a driver refuses when a queue pair ends, with the driver's calls in the test's own hands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "reduction_server/transport/rdma/verbs.h"
#include "tests/unit/allreduce/capture.h"

/* What the driver says, and the state that a pair was last brought into. */
static int destroys;
static int modifies;
static unsigned modified;
static enum ibv_qp_state state_then;

int __wrap_ibv_destroy_qp(struct ibv_qp *pair);
int __wrap_ibv_modify_qp(struct ibv_qp *pair, struct ibv_qp_attr *attributes, int mask);

int __wrap_ibv_destroy_qp(struct ibv_qp *pair)
{
	(void)pair;
	return destroys;
}

int __wrap_ibv_modify_qp(struct ibv_qp *pair, struct ibv_qp_attr *attributes, int mask)
{
	(void)pair;
	assert_int_equal(mask, IBV_QP_STATE);
	modified++;
	state_then = attributes->qp_state;
	return modifies;
}

static void destroy(int ret, int ret_of_modify)
{
	struct ibv_device device = {.name = "script0"};
	struct ibv_context context = {.device = &device};
	struct ibv_qp pair = {.context = &context};

	destroys = ret;
	modifies = ret_of_modify;
	modified = 0;
	smd_verbs_pair_destroy(&pair);
}

static void a_pair_that_is_destroyed_is_left_alone(void **state)
{
	(void)state;
	destroy(0, 0);
	assert_int_equal(modified, 0);
}

/* Its memory is used for something else from then on. */
static void a_pair_that_cannot_be_destroyed_is_stopped(void **state)
{
	(void)state;
	destroy(EBUSY, 0);
	assert_int_equal(modified, 1);
	assert_int_equal(state_then, IBV_QPS_ERR);
	assert_true(capture_has("warn  rdma: script0: cannot destroy a queue pair: Device or "
				"resource busy; it is stopped",
		NULL));
}

static void a_card_that_takes_no_orders_is_told(void **state)
{
	(void)state;
	destroy(EIO, ETIMEDOUT);
	assert_int_equal(modified, 1);
	assert_true(capture_has("error rdma: script0: cannot destroy a queue pair: Input/output "
				"error, nor stop it: Connection timed out",
		NULL));
}

#define CAPTURED(test) cmocka_unit_test_setup_teardown(test, capture_set_up, capture_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CAPTURED(a_pair_that_is_destroyed_is_left_alone),
		CAPTURED(a_pair_that_cannot_be_destroyed_is_stopped),
		CAPTURED(a_card_that_takes_no_orders_is_told),
	};

	return cmocka_run_group_tests_name("rdma verbs", tests, NULL, NULL);
}
