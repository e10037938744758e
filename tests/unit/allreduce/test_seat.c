/* Where callers wait for small operations, on a machine of the test's own (seat.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/seat.h"

#define LOOK_NS 10000000ull

/* The machine, and the one thread on it. */
static struct {
	cpu_set_t online;
	cpu_set_t wanted;  /* for the thread, */
	cpu_set_t allowed; /* and so it may run here */
	int here;
	bool refuses;          /* to move it, */
	bool refuses_anywhere; /* or to free it so far */
	bool others_bind;      /* it to processor 0, when it has moved */
	unsigned takes_us;     /* a move, by the only clock; */
	uint64_t clock_us;
	unsigned moves;
	unsigned freed; /* by a wider set than one processor */
} machine;

long __wrap_sysconf(int name);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_sched_getcpu(void);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set);

long __wrap_sysconf(int name)
{
	assert_int_equal(name, _SC_NPROCESSORS_ONLN);
	return CPU_COUNT(&machine.online);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	out->tv_sec = 0;
	out->tv_nsec = (long)machine.clock_us * 1000;
	return 0;
}

int __wrap_sched_getcpu(void)
{
	return machine.here;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	assert_int_equal(pid, 0);
	assert_int_equal(size, sizeof(*set));
	*set = machine.allowed;
	return 0;
}

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	assert_int_equal(pid, 0);
	assert_int_equal(size, sizeof(*set));
	if (machine.refuses) {
		errno = EINVAL;
		return -1;
	}
	if (machine.refuses_anywhere && CPU_COUNT(set) > CPU_COUNT(&machine.online)) {
		errno = ENOMEM;
		return -1;
	}
	machine.wanted = *set;
	CPU_AND(&machine.allowed, set, &machine.online);
	if (CPU_COUNT(set) > 1) {
		machine.freed++;
		return 0;
	}
	machine.moves++;
	machine.clock_us += machine.takes_us;
	if (machine.others_bind) {
		CPU_ZERO(&machine.allowed);
		CPU_SET(0, &machine.allowed);
	}
	while (!CPU_ISSET(machine.here, set)) {
		machine.here = (machine.here + 1) % CPU_SETSIZE;
	}
	return 0;
}

/* A machine with these two processors, on the first of which the thread runs. */
static void begin_on(int first, int second)
{
	memset(&machine, 0, sizeof(machine));
	CPU_SET(first, &machine.online);
	CPU_SET(second, &machine.online);
	machine.allowed = machine.online;
	machine.here = first;
}

static struct smd_seat seat_of(unsigned index, unsigned ranks, uint64_t first)
{
	struct smd_seat seat = {.taken = ATOMIC_FLAG_INIT};

	smd_seat_choose(&seat, index, ranks, first);
	return seat;
}

static void ranks_sit_in_turns(void **state)
{
	(void)state;
	for (unsigned first = 0; first < 2; first++) {
		for (unsigned i = 0; i < 5; i++) {
			struct smd_seat seat;

			begin_on(1, 6);
			seat = seat_of(i, 5, first);
			(void)smd_seat_take(&seat, SMD_SECOND_NS);
			assert_int_equal(machine.here, (i + first) % 2 ? 6 : 1);
		}
	}
}

static void who_has_moved_stays_free_to_be_moved(void **state)
{
	struct smd_seat seat;

	(void)state;
	begin_on(0, 1);
	seat = seat_of(1, 2, 0);
	assert_true(smd_seat_take(&seat, SMD_SECOND_NS));
	assert_int_equal(machine.here, 1);
	assert_int_equal(machine.moves, 1);
	assert_int_equal(machine.freed, 1);
	assert_true(CPU_EQUAL(&machine.allowed, &machine.online));
	assert_true(CPU_ISSET(2, &machine.wanted)); /* and on those that come later */
	assert_false(smd_seat_take(&seat, 2 * SMD_SECOND_NS));
	assert_int_equal(machine.moves, 1);
}

static void with_a_processor_for_each_rank_nobody_has_a_seat(void **state)
{
	struct smd_seat seat;

	(void)state;
	begin_on(0, 1);
	CPU_SET(2, &machine.online);
	machine.allowed = machine.online;
	seat = seat_of(1, 2, 0);
	assert_false(smd_seat_take(&seat, SMD_SECOND_NS));
	assert_int_equal(machine.moves, 0);
}

static void on_one_processor_nobody_has_a_seat(void **state)
{
	struct smd_seat seat;

	(void)state;
	begin_on(0, 0);
	seat = seat_of(1, 2, 0);
	assert_false(smd_seat_take(&seat, SMD_SECOND_NS));
	assert_int_equal(seat.look_ns, 0);
}

static void a_seat_that_is_cleared_is_none(void **state)
{
	struct smd_seat seat;

	(void)state;
	begin_on(0, 1);
	seat = seat_of(1, 4, 0);
	smd_seat_clear(&seat);
	assert_false(smd_seat_take(&seat, SMD_SECOND_NS));
	assert_int_equal(machine.moves, 0);
}

static void with_more_processors_than_before_there_is_none(void **state)
{
	struct smd_seat seat;

	(void)state;
	begin_on(0, 1);
	seat = seat_of(1, 2, 0);
	CPU_SET(2, &machine.online);
	machine.allowed = machine.online;
	assert_false(smd_seat_take(&seat, SMD_SECOND_NS));
	assert_int_equal(machine.moves, 0);
}

/* Between the two calls of a move. */
static void what_others_bind_meanwhile_stays_bound(void **state)
{
	struct smd_seat seat;

	(void)state;
	begin_on(0, 1);
	machine.others_bind = true;
	seat = seat_of(1, 2, 0);
	assert_false(smd_seat_take(&seat, SMD_SECOND_NS));
	assert_int_equal(machine.freed, 0);
	assert_int_equal(CPU_COUNT(&machine.allowed), 1);
	assert_true(CPU_ISSET(0, &machine.allowed));
}

static void a_thread_that_may_not_run_anywhere_may_where_it_did(void **state)
{
	struct smd_seat seat;

	(void)state;
	begin_on(0, 1);
	machine.refuses_anywhere = true;
	seat = seat_of(1, 2, 0);
	assert_true(smd_seat_take(&seat, SMD_SECOND_NS));
	assert_true(CPU_EQUAL(&machine.wanted, &machine.online));
}

/* A processor that others do not give up. */
static void who_has_waited_for_its_seat_leaves_it(void **state)
{
	struct smd_seat seat;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	begin_on(0, 1);
	machine.takes_us = 6000;
	seat = seat_of(1, 2, 0);
	assert_true(smd_seat_take(&seat, now));
	machine.here = 0;
	assert_false(smd_seat_take(&seat, now + 9 * SMD_SECOND_NS));
	assert_int_equal(machine.moves, 1);
}

static void where_a_thread_runs_is_not_asked_each_time(void **state)
{
	struct smd_seat seat;

	(void)state;
	begin_on(0, 1);
	seat = seat_of(1, 2, 0);
	assert_true(smd_seat_take(&seat, SMD_SECOND_NS));
	machine.here = 0;
	assert_false(smd_seat_take(&seat, SMD_SECOND_NS + LOOK_NS - 1));
	assert_true(smd_seat_take(&seat, SMD_SECOND_NS + LOOK_NS));
}

static void a_bound_thread_is_left_alone(void **state)
{
	struct smd_seat seat;

	(void)state;
	begin_on(0, 1);
	CPU_CLR(1, &machine.allowed);
	seat = seat_of(1, 2, 0);
	for (uint64_t now = SMD_SECOND_NS; now < 10 * SMD_SECOND_NS; now += LOOK_NS) {
		assert_false(smd_seat_take(&seat, now));
	}
	assert_int_equal(machine.moves + machine.freed, 0);
	assert_int_equal(seat.left_ns, 10 * SMD_SECOND_NS);
}

static void a_kernel_that_refuses_is_not_asked_again_soon(void **state)
{
	struct smd_seat seat;

	(void)state;
	begin_on(0, 1);
	machine.refuses = true;
	seat = seat_of(1, 2, 0);
	assert_false(smd_seat_take(&seat, SMD_SECOND_NS));
	machine.refuses = false;
	assert_false(smd_seat_take(&seat, 10 * SMD_SECOND_NS));
	assert_true(smd_seat_take(&seat, 12 * SMD_SECOND_NS));
}

/* The kernel moves it away each time, 0.2 s later, for so long. How often it was moved back. */
static unsigned fight(struct smd_seat *seat, uint64_t from_ns, uint64_t until_ns)
{
	unsigned moves = 0;

	for (uint64_t now = from_ns; now < until_ns; now += SMD_SECOND_NS / 5) {
		machine.here = 0;
		moves += smd_seat_take(seat, now);
	}
	return moves;
}

static void what_does_not_last_is_given_up_for_a_while(void **state)
{
	struct smd_seat seat;
	const uint64_t s = SMD_SECOND_NS;

	(void)state;
	begin_on(0, 1);
	seat = seat_of(1, 2, 0);
	assert_int_equal(fight(&seat, 1 * s, 11 * s), 8);  /* until 2.6 s, then left for 10 */
	assert_int_equal(fight(&seat, 11 * s, 30 * s), 8); /* until 14.2 s, for 20 */
	assert_int_equal(seat.left_ns, 20 * s);

	assert_true(smd_seat_take(&seat, 40 * s));
	machine.here = 0;
	assert_true(smd_seat_take(&seat, 42 * s)); /* that one has lasted */
	assert_int_equal(seat.left_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_sit_in_turns),
		cmocka_unit_test(who_has_moved_stays_free_to_be_moved),
		cmocka_unit_test(with_a_processor_for_each_rank_nobody_has_a_seat),
		cmocka_unit_test(on_one_processor_nobody_has_a_seat),
		cmocka_unit_test(a_seat_that_is_cleared_is_none),
		cmocka_unit_test(with_more_processors_than_before_there_is_none),
		cmocka_unit_test(what_others_bind_meanwhile_stays_bound),
		cmocka_unit_test(a_thread_that_may_not_run_anywhere_may_where_it_did),
		cmocka_unit_test(who_has_waited_for_its_seat_leaves_it),
		cmocka_unit_test(where_a_thread_runs_is_not_asked_each_time),
		cmocka_unit_test(a_bound_thread_is_left_alone),
		cmocka_unit_test(a_kernel_that_refuses_is_not_asked_again_soon),
		cmocka_unit_test(what_does_not_last_is_given_up_for_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
