/* Moves a thread to its rank's processor, and leaves it free to be moved from there. */
#include "worker/libsummand/seat.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"

#define LOOK_NS      10000000ull /* to ask takes nothing, and to move some 20 us */
#define LASTS_NS     SMD_SECOND_NS
#define WAITED_NS    5000000u /* for a processor that others have */
#define IN_VAIN_MOST 8        /* kernels take 0.1 s and more to move one that polls */
#define LEFT_NS      (10 * SMD_SECOND_NS)
#define LEFT_MOST_NS (600 * SMD_SECOND_NS)

static unsigned count_processors(void)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	return online > 0 ? (unsigned)online : 0;
}

void smd_seat_choose(struct smd_seat *seat, unsigned index, unsigned ranks, uint64_t first)
{
	unsigned processors = count_processors();

	if (processors < 2 || ranks < processors) {
		return;
	}
	seat->ranks = ranks;
	seat->index = (unsigned)((index + first) % processors);
	seat->processor = -1;
	atomic_store(&seat->look_ns, 1);
}

/* The seat's number. -1: the thread may not run on all processors, or there are more than ranks
 * now. */
static int find_processor(const struct smd_seat *seat, const cpu_set_t *allowed)
{
	unsigned processors = count_processors();
	unsigned passed = 0;

	if ((unsigned)CPU_COUNT(allowed) < processors || processors > seat->ranks) {
		return -1;
	}
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, allowed) && passed++ == seat->index) {
			return i;
		}
	}
	return -1;
}

/* When somebody looks next; not if the seat was cleared meanwhile. */
static void look_again(struct smd_seat *seat, uint64_t look_ns)
{
	uint64_t before = atomic_load(&seat->look_ns);

	if (before) {
		(void)atomic_compare_exchange_strong(&seat->look_ns, &before, look_ns);
	}
}

/* It is not to be had, or does not last: leaves it, for longer each time. */
static void leave(struct smd_seat *seat, uint64_t now)
{
	uint64_t longer = 2 * seat->left_ns < LEFT_MOST_NS ? 2 * seat->left_ns : LEFT_MOST_NS;

	seat->left_ns = seat->left_ns ? longer : LEFT_NS;
	seat->moved_ns = 0;
	seat->in_vain = 0;
	look_again(seat, now + seat->left_ns);
}

/* The thread is elsewhere. Whether it may be moved once more. */
static bool may_move(struct smd_seat *seat, uint64_t now)
{
	if (seat->moved_ns && now - seat->moved_ns < LASTS_NS) {
		seat->in_vain++;
	} else if (seat->moved_ns) {
		seat->in_vain = 0;
		seat->left_ns = 0;
	}
	return seat->in_vain < IN_VAIN_MOST;
}

/* It may run anywhere before, and so may afterwards, on processors that come later too; unless
 * somebody has bound it meanwhile. */
static bool move_to(int processor, const cpu_set_t *allowed)
{
	cpu_set_t there;
	cpu_set_t anywhere;
	cpu_set_t now;

	CPU_ZERO(&there);
	CPU_SET(processor, &there);
	memset(&anywhere, 0xff, sizeof(anywhere));
	if (sched_setaffinity(0, sizeof(there), &there)) {
		return false;
	}
	if (sched_getaffinity(0, sizeof(now), &now) == 0 && !CPU_EQUAL(&now, &there)) {
		return false;
	}
	if (sched_setaffinity(0, sizeof(anywhere), &anywhere)) {
		(void)sched_setaffinity(0, sizeof(*allowed), allowed);
	}
	return true;
}

/* Whether it was moved; what comes next is in *seat. */
static bool take(struct smd_seat *seat, uint64_t now)
{
	int here = sched_getcpu();
	uint64_t began_ns = smd_clock_ns();
	cpu_set_t allowed;

	look_again(seat, now + LOOK_NS);
	if (here == seat->processor) {
		return false;
	}
	CPU_ZERO(&allowed);
	(void)sched_getaffinity(0, sizeof(allowed), &allowed);
	seat->processor = find_processor(seat, &allowed);
	if (here == seat->processor) {
		return false;
	}
	if (seat->processor < 0 || !may_move(seat, now) || !move_to(seat->processor, &allowed)) {
		leave(seat, now);
		return false;
	}
	seat->moved_ns = now;
	if (smd_clock_ns() - began_ns > WAITED_NS) {
		leave(seat, now);
	}
	return true;
}

bool smd_seat_take(struct smd_seat *seat, uint64_t now)
{
	bool moved;

	if (!smd_seat_is_due(seat, now) || atomic_flag_test_and_set(&seat->taken)) {
		return false;
	}
	moved = take(seat, now);
	atomic_flag_clear(&seat->taken);
	return moved;
}
