/* Room on a device: for memory, for completions and for lanes; and what is said where there is
 * none. */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reduction_server/transport/rdma/process.h"
#include "tests/unit/rdma/peer.h"

/* The reason names the limit that must be raised. */
static void memory_that_cannot_be_locked_is_told_with_its_limit(void **state)
{
	struct link *link = *state;
	struct script_call *reg = &script.calls[SCRIPT_region_create];
	struct rlimit before;
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	for (int limited = 0; limited < 2; limited++) {
		struct peer peer;

		limit = before;
		limit.rlim_cur = limited ? 64 << 10 : before.rlim_max;
		assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
		peer_resolve(&peer, link);
		reg->fail_at = reg->count + 1;
		reg->err = -ENOMEM;
		script_tell(peer.id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
		stage_turn(link);
		assert_int_equal(peer.end.err, -ENOMEM);
		assert_non_null(strstr(peer.end.reason, "rdma: cannot register "));
		if (limited) {
			assert_non_null(strstr(peer.end.reason,
				"the limit of locked memory (ulimit -l) is 64 KiB"));
		}
		peer_close(&peer, link);
	}
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

/* The queue grows with the lanes, so that all that can complete at once has room. */
static void a_completion_queue_grows_with_its_lanes(void **state)
{
	enum { LANES = 250 };
	static struct parcel parcels[LANES][RDMA_BUFFERS];
	static struct peer peers[LANES];
	struct link *link = *state;

	for (int i = 0; i < LANES; i++) {
		peer_open(&peers[i], link);
	}
	assert_true(script.resizes >= 2);
	script.carries = false;
	for (int i = 0; i < LANES; i++) {
		for (unsigned k = 0; k < RDMA_BUFFERS; k++) {
			parcel_send(&parcels[i][k], &peers[i].end, k, 100, NULL);
		}
	}
	stage_turn(link);
	for (int i = 0; i < LANES; i++) {
		script_break(peers[i].id, IBV_WC_FATAL_ERR); /* all that is posted completes */
	}
	assert_true(script.completions_most > 16384);
	stage_turn(link);
	for (int i = 0; i < LANES; i++) {
		assert_int_equal(peers[i].end.closed, 1);
		peer_close(&peers[i], link);
		parcels_free(parcels[i], RDMA_BUFFERS);
	}
}

/* Many cards cannot make one larger. */
static void sixty_four_lanes_need_no_larger_queue(void **state)
{
	enum { LANES = 64 };
	static struct peer peers[LANES];
	struct script_call *resize = &script.calls[SCRIPT_queue_resize];
	struct link *link = *state;

	resize->fail_at = 1;
	resize->err = -EOPNOTSUPP;
	resize->always = true;
	for (int i = 0; i < LANES; i++) {
		peer_open(&peers[i], link);
	}
	assert_int_equal(resize->count, 0);
	for (int i = 0; i < LANES; i++) {
		peer_close(&peers[i], link);
	}
}

/* As where little memory may be locked. */
static void a_smaller_queue_will_do(void **state)
{
	struct script_call *create = &script.calls[SCRIPT_queue_create];
	struct link *link = *state;
	struct peer peer;

	create->err = -ENOMEM;
	create->fail_at = create->count + 1;
	peer_open(&peer, link);
	assert_int_equal(peer.lane->device->queue_depth, 8192);
	peer_close(&peer, link);
	create->fail_at = create->count + 1;
	create->always = true;
	peer_resolve(&peer, link);
	script_tell(peer.id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	stage_turn(link);
	end_assert_closed(&peer.end, -ENOMEM, peer.end.reason);
	assert_in_range(create->count, 3, 20);
	create->fail_at = 0;
	peer_close(&peer, link);
}

/* More lanes than a queue has room for, where none can be made larger, go on further ones: as many
 * as there are ranks. */
static void a_queue_that_cannot_grow_has_others_beside_it(void **state)
{
	enum { LANES = 600 };
	static struct peer peers[LANES];
	struct script_call *resize = &script.calls[SCRIPT_queue_resize];
	struct script_call *create = &script.calls[SCRIPT_queue_create];
	struct link *link = *state;
	unsigned open = 0;
	unsigned before;

	resize->fail_at = 1;
	resize->err = -EOPNOTSUPP;
	resize->always = true;
	before = create->count;
	for (int i = 0; i < LANES; i++) {
		peer_open(&peers[i], link);
	}
	assert_in_range(create->count - before, LANES / 110, LANES / 90);
	assert_int_equal(script.vectors, (1u << SCRIPT_VECTORS) - 1); /* not all by one processor */
	for (int i = 0; i < LANES; i++) {
		peer_frame(&peers[i], 1, 10);
		peer_poll(&peers[i]);
		open += peers[i].end.frames;
	}
	assert_int_equal(open, LANES);
	for (int i = 0; i < LANES; i++) {
		peer_close(&peers[i], link);
	}
	stage_turn(link);
	before = create->count;
	peer_open(&peers[0], link); /* there is room again */
	assert_in_range(create->count - before, 0, 1);
	peer_close(&peers[0], link);
}

/* Nor is one made larger while others wait for it. */
static void a_queue_that_grows_slowly_has_others_beside_it(void **state)
{
	enum { LANES = 110 };
	static struct peer peers[LANES];
	struct script_call *create = &script.calls[SCRIPT_queue_create];
	struct link *link = *state;
	unsigned before = create->count;

	script.limits.resizes_slowly = true;
	for (int i = 0; i < LANES; i++) {
		peer_open(&peers[i], link);
	}
	assert_int_equal(create->count - before, 2);
	assert_int_equal(script.calls[SCRIPT_queue_resize].count, 0);
	for (int i = 0; i < LANES; i++) {
		peer_close(&peers[i], link);
	}
}

/* ---- whom queues wake ---- */

static pid_t others; /* so many processes after this one */

pid_t __real_getpid(void);
pid_t __wrap_getpid(void);

pid_t __wrap_getpid(void)
{
	return __real_getpid() + others;
}

/* Of a queue that is made for one lane. */
static unsigned vector_of_queue(struct link *link)
{
	struct peer peer;

	script.vectors = 0;
	peer_open(&peer, link);
	peer_close(&peer, link);
	assert_int_equal(__builtin_popcount(script.vectors), 1);
	return (unsigned)__builtin_ctz(script.vectors);
}

/* Each queue of a process wakes the next processor. Those that are started together have made as many
 * queues each, and would all wake the same one if they did not begin elsewhere. */
static void queues_wake_others_in_other_processes(void **state)
{
	struct link *link = *state;
	unsigned last = vector_of_queue(link);

	for (others = 0; others < SCRIPT_VECTORS; others++) {
		unsigned next = (last + 1) % SCRIPT_VECTORS; /* where this process is now */
		unsigned vector = vector_of_queue(link);

		assert_int_equal(vector, (next + (unsigned)others) % SCRIPT_VECTORS);
		last = next;
	}
	others = 0;
}

/* Of process 1 of a PID namespace of its own, as in a container. */
struct numbered {
	bool made;
	uint32_t number;
};

/* Writes it, and stays until the other pipe is closed: numbers of namespaces that are gone are
 * given again. */
static _Noreturn void be_process_one(int to, int until)
{
	struct numbered one = {.made = unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0};
	pid_t child = one.made ? fork() : 0;
	bool wrong;

	if (child) {
		_exit(child < 0 || waitpid(child, NULL, 0) != child);
	}
	one.number = smd_rdma_process_number();
	wrong = (one.made && getpid() != 1) || write(to, &one, sizeof(one)) != sizeof(one);
	_exit(wrong || read(until, &one, sizeof(one)) != 0);
}

/* It has its end of the pipe alone, so that this one hears of it when it says nothing. */
static pid_t fork_process_one(int until[2], struct numbered *one)
{
	int said[2];
	pid_t child;

	assert_int_equal(pipe(said), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(until[1]);
		be_process_one(said[1], until[0]);
	}
	close(said[1]);
	assert_int_equal(read(said[0], one, sizeof(*one)), sizeof(*one));
	close(said[0]);
	return child;
}

/* Processes of two containers have the same id, and begin elsewhere all the same. */
static void processes_of_other_namespaces_have_other_numbers(void **state)
{
	struct numbered ones[2];
	pid_t children[2];
	int until[2];
	int status;

	(void)state;
	assert_int_equal(pipe(until), 0);
	for (int i = 0; i < 2; i++) {
		children[i] = fork_process_one(until, &ones[i]);
	}
	close(until[1]);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	close(until[0]);
	if (!ones[0].made || !ones[1].made) { /* namespaces may not be made here */
		skip();
	}
	assert_int_not_equal(ones[0].number, ones[1].number);
}

static void assert_told(struct link *link, int err, const char *says)
{
	struct peer peer;

	peer_resolve(&peer, link);
	script_tell(peer.id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	stage_turn(link);
	end_assert_closed(&peer.end, err, peer.end.reason);
	assert_non_null(strstr(peer.end.reason, says));
	peer_close(&peer, link);
}

static void a_lane_for_which_there_is_no_room_is_told_so(void **state)
{
	script.limits.completions = RDMA_DEPTH;
	assert_told(*state, -ENOSPC,
		"rdma: the device has no room for the completions of one more lane");
}

/* As iWARP's are: a lane over TCP takes its place. */
static void a_card_without_immediate_data_is_told_so(void **state)
{
	script.limits.immediate = false;
	assert_told(*state, -ENOTSUP, "must be InfiniBand or RoCE");
}

/* More lanes than the table of a device begins with; numbers are not given twice. */
static void lanes_have_numbers_of_their_own(void **state)
{
	enum { LANES = 40 };
	struct link *link = *state;
	struct peer peers[LANES];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < LANES; i++) {
			peer_open(&peers[i], link);
			for (int k = 0; k < i; k++) {
				assert_int_not_equal(
					peers[k].lane->pair.number, peers[i].lane->pair.number);
			}
		}
		for (int i = 0; i < LANES; i++) {
			int k = (i * 7) % LANES;

			assert_ptr_equal(smd_rdma_device_find(
						 peers[k].lane->device, peers[k].lane->pair.number),
				&peers[k].lane->pair);
			peer_close(&peers[k], link);
		}
	}
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(memory_that_cannot_be_locked_is_told_with_its_limit),
		STAGE(a_completion_queue_grows_with_its_lanes),
		STAGE(sixty_four_lanes_need_no_larger_queue),
		STAGE(a_smaller_queue_will_do),
		STAGE(a_queue_that_cannot_grow_has_others_beside_it),
		STAGE(a_queue_that_grows_slowly_has_others_beside_it),
		STAGE(queues_wake_others_in_other_processes),
		STAGE(processes_of_other_namespaces_have_other_numbers),
		STAGE(a_lane_for_which_there_is_no_room_is_told_so),
		STAGE(a_card_without_immediate_data_is_told_so),
		STAGE(lanes_have_numbers_of_their_own),
	};

	return cmocka_run_group_tests_name("rdma room", tests, NULL, NULL);
}
