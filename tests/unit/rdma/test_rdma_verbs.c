/* What a driver is asked for a queue pair, and what it refuses when one ends, with its calls in the
 * test's own hands. */
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
static struct ibv_qp_attr asked[IBV_QPS_ERR + 1]; /* by state */

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
	assert_true(mask & IBV_QP_STATE);
	assert_true(attributes->qp_state != IBV_QPS_ERR || mask == IBV_QP_STATE);
	modified++;
	state_then = attributes->qp_state;
	asked[state_then] = *attributes;
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

/* ---- joining ---- */

/* InfiniBand on this end's subnet, as far as nothing else is said. */
static struct smd_verbs_path path_of_infiniband(void)
{
	return (struct smd_verbs_path){
		.port = {.name = "mlx5_0",
			.number = 2,
			.gid_index = 1,
			.lid = 7,
			.gid = {0xfe, 0x80}},
		.number = 0x1234,
		.first_packet = 0x56789a,
		.lid = 9,
		.gid = {0xfe, 0x80, [15] = 1},
		.mtu = IBV_MTU_2048,
		.own_first_packet = 0xabcdef,
		.service_level = 3,
		.traffic_class = 106,
		.patience = {.timeout = 18, .retries = 7},
	};
}

static const struct ibv_ah_attr *join(const struct smd_verbs_path *path)
{
	struct ibv_qp pair = {.qp_num = 1};

	modifies = 0;
	modified = 0;
	assert_int_equal(smd_verbs_pair_join(&pair, path), 0);
	assert_int_equal(modified, 2);
	return &asked[IBV_QPS_RTR].ah_attr;
}

static void a_pair_is_joined_as_its_path_says(void **state)
{
	const struct smd_verbs_path path = path_of_infiniband();
	const struct ibv_ah_attr *way = join(&path);
	const struct ibv_qp_attr *receives = &asked[IBV_QPS_RTR];
	const struct ibv_qp_attr *sends = &asked[IBV_QPS_RTS];

	(void)state;
	assert_int_equal(receives->dest_qp_num, 0x1234);
	assert_int_equal(receives->rq_psn, 0x56789a);
	assert_int_equal(receives->path_mtu, IBV_MTU_2048);
	assert_int_equal(sends->sq_psn, 0xabcdef);
	assert_int_equal(sends->timeout, 18);
	assert_int_equal(sends->retry_cnt, 7);
	assert_int_equal(way->port_num, 2);
	assert_int_equal(way->sl, 3);
	assert_int_equal(way->grh.traffic_class, 106);
	assert_int_equal(way->grh.sgid_index, 1);
	assert_memory_equal(way->grh.dgid.raw, path.gid, sizeof(path.gid));
}

/* InfiniBand's own subnet is crossed by lids; all else by gids, too. */
static void what_leaves_the_subnet_goes_by_the_gid(void **state)
{
	struct smd_verbs_path path = path_of_infiniband();

	(void)state;
	assert_int_equal(join(&path)->dlid, 9);
	assert_int_equal(join(&path)->is_global, 0);
	path.gid[7] = 1; /* another subnet */
	assert_int_equal(join(&path)->is_global, 1);
	path = path_of_infiniband();
	path.port.routed = true; /* some virtual functions */
	assert_int_equal(join(&path)->is_global, 1);
	path = path_of_infiniband();
	path.port.ethernet = true;
	assert_int_equal(join(&path)->is_global, 1);
}

static void a_driver_that_refuses_to_join_is_believed(void **state)
{
	const struct smd_verbs_path path = path_of_infiniband();
	struct ibv_qp pair = {.qp_num = 1};

	(void)state;
	modifies = ENETUNREACH;
	modified = 0;
	assert_int_equal(smd_verbs_pair_join(&pair, &path), -ENETUNREACH);
	assert_int_equal(modified, 1);
}

#define CAPTURED(test) cmocka_unit_test_setup_teardown(test, capture_set_up, capture_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CAPTURED(a_pair_that_is_destroyed_is_left_alone),
		CAPTURED(a_pair_that_cannot_be_destroyed_is_stopped),
		CAPTURED(a_card_that_takes_no_orders_is_told),
		cmocka_unit_test(a_pair_is_joined_as_its_path_says),
		cmocka_unit_test(what_leaves_the_subnet_goes_by_the_gid),
		cmocka_unit_test(a_driver_that_refuses_to_join_is_believed),
	};

	return cmocka_run_group_tests_name("rdma verbs", tests, NULL, NULL);
}
