/* What a device tells of itself reaches the lanes that it concerns, and no others. */
#include <errno.h>
#include <string.h>

#include "reduction_server/base/log.h"
#include "tests/unit/rdma/halves.h"

static unsigned port_lines;

static void count_port_lines(enum smd_log_level level, const char *component, const char *sentence)
{
	(void)component;
	port_lines += strstr(sentence, "script0: port 1 is ") &&
		      level == (strstr(sentence, "up again") ? SMD_LOG_INFO : SMD_LOG_WARN);
}

static void a_port_that_goes_down_ends_no_lane(void **state)
{
	struct link *link = *state;
	struct halves halves;
	struct parcel parcel;

	smd_log_set_sink(count_port_lines);
	halves_open(&halves, link);
	script_device_tell(IBV_EVENT_PORT_ERR, NULL);
	script_device_tell(IBV_EVENT_PORT_ACTIVE, NULL);
	script_device_tell(IBV_EVENT_GID_CHANGE, NULL);
	script_device_tell(IBV_EVENT_COMM_EST, NULL);
	stage_turn(link);
	smd_log_set_sink(NULL);
	assert_int_equal(port_lines, 2);
	parcel_send(&parcel, &link->near, 1, 100, NULL);
	RUN_UNTIL(link, link->far.frames == 1);
	assert_int_equal(link->near.closed + link->far.closed, 0);
	halves_close(&halves);
	parcels_free(&parcel, 1);
}

static void a_failed_pair_ends_its_own_lane(void **state)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR};
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct halves halves;

		halves_open(&halves, link);
		script_device_tell(types[i], halves.second.lane->pair.qp);
		stage_turn(link);
		end_assert_closed(&link->near, -EIO, ibv_event_type_str(types[i]));
		assert_int_equal(link->far.closed, 0);
		halves_close(&halves);
	}
}

static void a_failed_queue_or_device_ends_all(void **state)
{
	static const struct {
		enum ibv_event_type type;
		int err;
		const char *reason;
	} told[] = {
		{IBV_EVENT_CQ_ERR, -EIO, "the device's completion queue has failed"},
		{IBV_EVENT_DEVICE_FATAL, -ENODEV, "the RDMA device was removed"},
	};
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		struct halves halves;

		halves_open(&halves, link);
		script_device_tell(told[i].type, NULL);
		stage_turn(link);
		end_assert_closed(&link->near, told[i].err, told[i].reason);
		end_assert_closed(&link->far, told[i].err, told[i].reason);
		halves_close(&halves);
	}
}

/* A driver that cannot take its device from who has it open tells the connection manager. */
static void a_removal_is_heard_from_the_connection_manager(void **state)
{
	struct link *link = *state;
	struct halves halves;

	halves_open(&halves, link);
	assert_non_null(script_bound());
	script_tell(script_bound(), RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
	stage_turn(link);
	end_assert_closed(&link->near, -ENODEV, "the RDMA device was removed");
	end_assert_closed(&link->far, -ENODEV, "the RDMA device was removed");
	halves_close(&halves);
	assert_null(script_bound()); /* and it is closed, so that the removal can end */
	halves_open(&halves, link);  /* it is there again */
	assert_non_null(script_bound());
	halves_close(&halves);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(a_port_that_goes_down_ends_no_lane),
		STAGE(a_failed_pair_ends_its_own_lane),
		STAGE(a_failed_queue_or_device_ends_all),
		STAGE(a_removal_is_heard_from_the_connection_manager),
	};

	return cmocka_run_group_tests_name("rdma device events", tests, NULL, NULL);
}
