/*
 * Lanes in shared memory, beside what test_lane.c asks of every transport: rings, who is woken and
 * who is not, and another process that writes what it likes.
 */
#include "tests/unit/transport/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reduction_server/base/available.h"
#include "reduction_server/transport/shared_bytes.h"
#include "reduction_server/transport/shm/shm.h"
#include "reduction_server/transport/shm/wire.h"

static struct shm_lane *shm_of(const struct end *end)
{
	return shm_lane_of(end->lane);
}

/* ---- a ring ---- */

struct ring_pair {
	struct shm_words words;
	uint8_t bytes[SMD_SHM_RING_LEAST];
	struct shm_ring writer;
	struct shm_ring reader;
};

static int make_rings(void **state)
{
	struct ring_pair *pair = aligned_alloc(SMD_SHM_LINE, sizeof(*pair));

	memset(pair, 0, sizeof(*pair));
	pair->writer = smd_shm_ring_of(&pair->words, pair->bytes, sizeof(pair->bytes));
	pair->reader = smd_shm_ring_of(&pair->words, pair->bytes, sizeof(pair->bytes));
	*state = pair;
	return 0;
}

static int free_rings(void **state)
{
	free(*state);
	return 0;
}

static void bytes_come_out_as_they_went_in_round_and_round(void **state)
{
	enum { PIECE = 10007, ROUNDS = 50 };
	struct ring_pair *pair = *state;
	uint8_t in[PIECE];
	uint8_t out[PIECE];
	uint32_t n;

	/* Soon the indices are back at 0. */
	pair->writer.at = pair->writer.other = pair->reader.at = UINT32_MAX - 20000;
	smd_shm_ring_publish(&pair->writer);
	smd_shm_ring_release(&pair->reader);
	for (unsigned round = 0; round < ROUNDS; round++) {
		memset(in, (int)round, sizeof(in));
		assert_int_equal(smd_shm_ring_room(&pair->writer, PIECE, &n), 0);
		assert_true(n >= PIECE);
		smd_shm_ring_write(&pair->writer, in, PIECE);
		assert_int_equal(smd_shm_ring_held(&pair->reader, &n), 0);
		assert_int_equal(n, 0); /* it is not told of them yet */
		smd_shm_ring_publish(&pair->writer);
		assert_int_equal(smd_shm_ring_held(&pair->reader, &n), 0);
		assert_int_equal(n, PIECE);
		smd_shm_ring_read(&pair->reader, out, PIECE);
		smd_shm_ring_release(&pair->reader);
		assert_memory_equal(in, out, PIECE);
	}
}

static void a_full_ring_has_no_room_until_it_is_read(void **state)
{
	static uint8_t all[SMD_SHM_RING_LEAST];
	struct ring_pair *pair = *state;
	uint32_t n;

	smd_shm_ring_write(&pair->writer, all, sizeof(all));
	smd_shm_ring_publish(&pair->writer);
	assert_int_equal(smd_shm_ring_room(&pair->writer, 1, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(smd_shm_ring_held(&pair->reader, &n), 0);
	assert_int_equal(n, sizeof(all));
	smd_shm_ring_read(&pair->reader, all, 100);
	smd_shm_ring_release(&pair->reader);
	assert_int_equal(smd_shm_ring_room(&pair->writer, 1, &n), 0);
	assert_int_equal(n, 100);
}

static void indices_more_than_a_ring_apart_are_refused(void **state)
{
	struct ring_pair *pair = *state;
	const uint32_t false_ones[] = {SMD_SHM_RING_LEAST + 1, UINT32_MAX, UINT32_MAX / 2,
		UINT32_MAX - SMD_SHM_RING_LEAST};
	uint32_t n;

	for (size_t i = 0; i < sizeof(false_ones) / sizeof(false_ones[0]); i++) {
		pair->words.head = false_ones[i];
		assert_int_equal(smd_shm_ring_held(&pair->reader, &n), -EPROTO);
	}
	pair->words.tail = 1; /* of what was never written */
	assert_int_equal(smd_shm_ring_room(&pair->writer, SMD_SHM_RING_LEAST + 1, &n), -EPROTO);
}

static void who_changes_something_sees_who_sleeps_once(void **state)
{
	struct ring_pair *pair = *state;

	assert_false(smd_shm_word_taken(&pair->words.reader_sleeps));
	smd_shm_word_say(&pair->words.reader_sleeps);
	assert_true(smd_shm_word_taken(&pair->words.reader_sleeps));
	assert_false(smd_shm_word_taken(&pair->words.reader_sleeps));
	smd_shm_word_say(&pair->words.reader_sleeps);
	smd_shm_word_take_back(&pair->words.reader_sleeps);
	assert_false(smd_shm_word_taken(&pair->words.reader_sleeps));
}

/* ---- who is woken ---- */

/* Bytes on the socket that the end has not taken. */
static int wakes_of(const struct end *end)
{
	int n = -1;

	assert_int_equal(ioctl(shm_of(end)->fd, FIONREAD, &n), 0);
	return n;
}

static void open_and_sleep(struct link *link)
{
	link_open(link);
	link_run_on(link);
	assert_true(shm_of(&link->near)->armed);
	assert_true(shm_of(&link->far)->armed);
}

static void one_byte_wakes_for_many_frames(void **state)
{
	enum { FRAMES = 100 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];

	open_and_sleep(link);
	assert_int_equal(wakes_of(&link->far), 0);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, 100, NULL);
		assert_int_equal(parcels[i].done, 1); /* it is copied */
	}
	assert_int_equal(wakes_of(&link->far), 1);
	RUN_UNTIL(link, link->far.frames == FRAMES);
	link_run_on(link);
	assert_true(shm_of(&link->far)->armed);
	assert_int_equal(wakes_of(&link->far), 0);
	parcels_free(parcels, FRAMES);
}

/* It would else wait for the end of what has no room. */
static void a_frame_longer_than_the_ring_wakes_its_reader(void **state)
{
	struct link *link = *state;
	struct parcel parcel;

	open_and_sleep(link);
	assert_true(shm_of(&link->near)->tx.size < ROOM + SMD_FRAME_SIZE);
	parcel_send(&parcel, &link->near, 0, ROOM, NULL);
	assert_int_equal(parcel.done, 0);
	assert_int_equal(wakes_of(&link->far), 1);
	RUN_UNTIL(link, link->far.frames == 1);
	assert_int_equal(parcel.done, 1);
	parcels_free(&parcel, 1);
}

static void who_polls_is_not_woken(void **state)
{
	struct link *link = *state;
	struct parcel parcels[2];

	open_and_sleep(link);
	parcel_send(&parcels[0], &link->near, 0, 100, NULL);
	smd_lane_poll(link->far.lane);
	assert_int_equal(link->far.frames, 1);
	while (shm_of(&link->far)->armed) { /* unless this thread stood still meanwhile */
		shm_of(&link->far)->busy_ns = smd_clock_ns();
		smd_lane_poll(link->far.lane);
	}
	(void)recv(shm_of(&link->far)->fd, (char[8]){0}, 8, MSG_DONTWAIT);
	parcel_send(&parcels[1], &link->near, 1, 100, NULL);
	assert_int_equal(wakes_of(&link->far), 0);
	smd_lane_poll(link->far.lane);
	assert_int_equal(link->far.frames, 2);
	link_run_on(link); /* and when it polls no more, it is to be woken again */
	assert_true(shm_of(&link->far)->armed);
	parcels_free(parcels, 2);
}

/* The far end takes nothing for a while: the near one fills the ring, and says that it waits. */
static void a_writer_is_woken_when_half_is_free(void **state)
{
	enum { FRAMES = 8 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	struct shm_lane *near;
	uint32_t ring;

	open_and_sleep(link);
	near = shm_of(&link->near);
	ring = near->tx.size;
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ring / 2, NULL);
	}
	assert_int_equal(parcels[FRAMES - 1].done, 0);
	assert_true(near->armed);
	assert_int_equal(near->tx.words->writer_waits, 1);
	smd_shm_receive(shm_of(&link->far), ring / 4);
	assert_int_equal(wakes_of(&link->near), 0);
	smd_shm_receive(shm_of(&link->far), ring / 2);
	assert_int_equal(wakes_of(&link->near), 1);
	RUN_UNTIL(link, link->far.frames == FRAMES && parcels_done == FRAMES);
	parcels_free(parcels, FRAMES);
}

static void a_turn_takes_so_much_and_leaves_the_rest_for_the_next(void **state)
{
	enum { FRAMES = 64 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	uint32_t held;

	open_and_sleep(link);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, 1000, NULL);
	}
	smd_shm_receive(shm_of(&link->far), 10000);
	assert_in_range(link->far.frames, 9, 10);
	assert_int_equal(smd_shm_ring_held(&shm_of(&link->far)->rx, &held), 0);
	assert_true(held > 0);
	RUN_UNTIL(link, link->far.frames == FRAMES);
	parcels_free(parcels, FRAMES);
}

enum { BUSY_FRAMES = 100, BUSY_BYTES = 200000 };

static struct {
	struct link *link;
	struct parcel parcels[BUSY_FRAMES];
	unsigned sent;
	unsigned frames; /* that had come when the timer did */
} busy;

static void note_frames(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	busy.frames = busy.link->far.frames;
}

static void send_another(struct end *far)
{
	const struct timeval soon = {0, 1}; /* at once it would be no timer */

	if (far->frames == 3) {
		assert_int_equal(
			event_base_once(far->base, -1, EV_TIMEOUT, note_frames, NULL, &soon), 0);
	}
	if (busy.sent < BUSY_FRAMES) {
		parcel_send(&busy.parcels[busy.sent], &busy.link->near, busy.sent, BUSY_BYTES, NULL);
		busy.sent++;
	}
}

/* Sockets, new lanes, timers: whatever the ring always has. */
static void a_busy_lane_leaves_the_loop_to_others(void **state)
{
	struct link *link = *state;

	open_and_sleep(link);
	busy.link = link;
	busy.sent = 0;
	busy.frames = 0;
	link->far.then = send_another;
	for (unsigned i = 0; i < 2; i++) {
		send_another(&link->far);
	}
	RUN_UNTIL(link, link->far.frames == BUSY_FRAMES && busy.frames > 0);
	assert_in_range(busy.frames, 3, BUSY_FRAMES / 2);
	link->far.then = NULL;
	parcels_free(busy.parcels, BUSY_FRAMES);
}

/* ---- the other end writes what it likes ---- */

static void a_false_head_ends_the_lane(void **state)
{
	struct link *link = *state;
	struct shm_lane *far;

	open_and_sleep(link);
	far = shm_of(&link->far);
	far->rx.words->head = far->rx.at + far->rx.size + 1;
	smd_shm_tell_bytes(shm_of(&link->near));
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.err, -EPROTO);
	assert_string_equal(
		link->far.reason, "the other end's index of shared memory makes no sense");
	RUN_UNTIL(link, link->near.closed);
}

static void a_false_tail_ends_the_lane(void **state)
{
	enum { FRAMES = 3 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	struct shm_lane *near;

	open_and_sleep(link);
	near = shm_of(&link->near);
	near->tx.words->tail = near->tx.at + 1;
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, NULL);
	}
	assert_int_equal(link->near.closed, 0); /* not inside a send */
	RUN_UNTIL(link, link->near.closed);
	assert_int_equal(link->near.err, -EPROTO);
	assert_int_equal(parcels_done, FRAMES);
	parcels_free(parcels, FRAMES);
}

static void bytes_that_are_no_frame_end_the_lane(void **state)
{
	struct link *link = *state;
	struct shm_lane *near;

	open_and_sleep(link);
	near = shm_of(&link->near);
	smd_shm_ring_write(&near->tx, (uint8_t[SMD_FRAME_SIZE]){'n', 'o'}, SMD_FRAME_SIZE);
	smd_shm_ring_publish(&near->tx);
	smd_shm_tell_bytes(near);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.err, -EPROTO);
	assert_int_equal(link->far.headers, 0);
}

static void a_frame_on_the_carrier_ends_the_lane(void **state)
{
	struct smd_frame frame = {.kind = SMD_FRAME_PING};
	struct link *link = *state;

	open_and_sleep(link);
	assert_int_equal(smd_lane_send_control(shm_of(&link->near)->carrier, &frame, NULL, 0), 0);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.err, -EPROTO);
	assert_string_equal(
		link->far.reason, "PING: must come through shared memory, and came beside it");
}

/* What a process leaves behind whose end the kernel tells: it has said no more than this. */
static void what_is_in_the_ring_at_the_end_is_handed_out(void **state)
{
	enum { FRAMES = 5 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];

	open_and_sleep(link);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, 5000, NULL);
	}
	(void)recv(shm_of(&link->far)->fd, (char[8]){0}, 8, MSG_DONTWAIT); /* it is not woken */
	end_close(&link->near);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.frames, FRAMES);
	parcels_free(parcels, FRAMES);
}

/* ---- memory ---- */

static void memory_is_counted_and_given_back(void **state)
{
	struct link *link = *state;
	size_t length;

	assert_int_equal(smd_shared_bytes(), 0);
	link_open(link);
	length = shm_of(&link->near)->memory.length;
	assert_true(length >= 2 * SMD_SHM_RING_LEAST && length <= 2 * SMD_SHM_RING_MOST + 4096);
	assert_int_equal(smd_shared_bytes(), 2 * length); /* of both ends */
	end_close(&link->near);
	RUN_UNTIL(link, link->far.closed);
	link_run_on(link);
	assert_int_equal(smd_shared_bytes(), 0);
}

/* It would keep the lane, and its memory, after its parent's end. */
static void a_forked_child_has_none_of_its_descriptors(void **state)
{
	struct link *link = *state;
	int fds[2];
	int status;
	pid_t child;

	link_open(link);
	fds[0] = shm_of(&link->near)->fd;
	fds[1] = shm_of(&link->far)->fd;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		int kept = 0;

		for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
			kept += fcntl(fds[i], F_GETFD) != -1;
		}
		_exit(kept);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(fcntl(fds[0], F_GETFD) >= 0);
}

/* What all lanes take stays a small part of what there is, however many there are. */
static void rings_get_shorter_with_what_others_have_taken(void **state)
{
	const uint64_t available = 2ull << 30;
	uint64_t taken = 0;
	uint32_t before = smd_shm_memory_ring(available, 0);

	(void)state;
	assert_int_equal(before, SMD_SHM_RING_MOST);
	for (uint32_t ring; (ring = smd_shm_memory_ring(available, taken)); before = ring) {
		assert_true(ring <= before && smd_shm_memory_is_ring(ring));
		taken += 2 * ring;
	}
	assert_int_equal(before, SMD_SHM_RING_LEAST);
	assert_in_range(taken, available / 16, available / 8);
	assert_int_equal(smd_shm_memory_ring(available, UINT64_MAX), 0);
	assert_int_equal(smd_shm_memory_ring(16u << 20, 0), 0);
}

/* Else lanes that begin at once would all see the same memory left. */
static void memory_is_counted_from_the_offer_on(void **state)
{
	struct shm_memory memory = {.bytes = NULL};
	uint32_t ring = smd_shm_memory_reserve(&memory);

	(void)state;
	assert_true(smd_shared_bytes() >= 2 * ring && ring > 0);
	smd_shm_memory_free(&memory);
	assert_int_equal(smd_shared_bytes(), 0);
}

/* As where vm.overcommit_memory is 2, and where that cannot be read. */
static void it_is_known_where_the_kernel_may_refuse_pages(void **state)
{
	const struct {
		const char *says;
		bool overcommits;
	} rows[] = {{"0\n", true}, {"1\n", true}, {"2\n", false}, {"", true}};
	char path[] = "/tmp/test_shm-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const ssize_t length = (ssize_t)strlen(rows[i].says);

		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, rows[i].says, (size_t)length, 0), length);
		assert_int_equal(smd_memory_overcommits(path), rows[i].overcommits);
	}
	close(fd);
	unlink(path);
	assert_true(smd_memory_overcommits(path));
}

static int memory_of(const char *how, size_t length)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)length), 0);
	if (strstr(how, "shrink")) {
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	}
	if (strstr(how, "grow")) {
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	}
	if (strstr(how, "write")) {
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	}
	return fd;
}

static void only_sealed_memory_of_the_right_size_is_taken(void **state)
{
	const size_t right = 4096 + 2 * (size_t)SMD_SHM_RING_LEAST;
	const struct {
		const char *how;
		size_t length;
		const char *text;
	} rows[] = {
		{"shrink grow", right, NULL},
		{"", right, "must be sealed"},
		{"grow", right, "must be sealed"},
		{"shrink", right, "must be sealed"},
		{"shrink grow", right - 4096, "must be of"},
		{"shrink grow", 0, "must be of"},
		{"shrink grow write", right, "cannot map"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd = memory_of(rows[i].how, rows[i].length);
		struct shm_memory memory = {.bytes = NULL};
		struct smd_error error = {""};
		int ret = smd_shm_memory_take(&memory, SMD_SHM_RING_LEAST, fd, &error);

		assert_int_equal(ret == 0, rows[i].text == NULL);
		assert_true(!rows[i].text || strstr(error.text, rows[i].text));
		smd_shm_memory_free(&memory);
		close(fd);
	}
}

static void what_is_no_memory_is_refused(void **state)
{
	struct shm_memory memory = {.bytes = NULL};
	struct smd_error error = {""};
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(
		smd_shm_memory_take(&memory, SMD_SHM_RING_LEAST, ends[0], &error), -EPROTO);
	close(ends[0]);
	close(ends[1]);
}

/* ---- meeting ---- */

static void who_does_not_know_the_secret_is_not_heard(void **state)
{
	struct shm_meeting meeting;
	struct shm_meeting guess;
	struct smd_error error = {""};
	int memory = memory_of("", 4096);
	int listener = smd_shm_meeting_open(&meeting, &error);
	int strangers[2];
	int passed;
	int friend;
	int taken;

	(void)state;
	assert_true(listener >= 0);
	guess = meeting;
	guess.secret[5] ^= 1;
	strangers[0] = smd_shm_meeting_pass(&guess, memory, &error);
	assert_true(strangers[0] >= 0);
	assert_int_equal(smd_shm_meeting_take(&meeting, listener, &passed, &error), -ENOENT);
	strangers[1] = smd_shm_meeting_pass(&guess, memory, &error);
	friend = smd_shm_meeting_pass(&meeting, memory, &error);
	taken = smd_shm_meeting_take(&meeting, listener, &passed, &error);
	assert_true(friend >= 0 && taken >= 0 && passed >= 0);
	close(passed);
	close(taken);
	close(friend);
	close(strangers[0]);
	close(strangers[1]);
	close(listener);
	assert_int_equal(smd_shm_meeting_pass(&meeting, memory, &error), -EHOSTUNREACH);
	close(memory);
}

static void offers_are_checked(void **state)
{
	const struct shm_offer offer = {.ring = SMD_SHM_RING_MOST, .meeting = {.name = {1, 2}}};
	struct smd_error error = {""};
	struct smd_offer bytes;
	struct shm_offer out;

	(void)state;
	smd_shm_offer_encode(&offer, &bytes);
	assert_int_equal(smd_shm_offer_decode(&bytes, false, &out, &error), 0);
	assert_int_equal(out.ring, offer.ring);
	assert_memory_equal(&out.meeting, &offer.meeting, sizeof(out.meeting));
	assert_int_equal(smd_shm_offer_decode(&bytes, true, &out, &error), -EPROTO);
	for (size_t i = 0; i < 12; i++) { /* each byte that means something */
		struct smd_offer wrong = bytes;

		wrong.bytes[i] ^= 0x41;
		if (i != 6 && i != 7) {
			assert_int_equal(
				smd_shm_offer_decode(&wrong, false, &out, &error), -EPROTO);
		}
	}
	for (size_t length = 0; length < bytes.length; length++) {
		struct smd_offer wrong = bytes;

		wrong.length = length;
		assert_int_equal(smd_shm_offer_decode(&wrong, false, &out, &error), -EPROTO);
	}
}

#define RING_TEST(name) cmocka_unit_test_setup_teardown(name, make_rings, free_rings)
#define SHM_TEST(name)                                                                             \
	{                                                                                          \
#name, name, link_set_up, link_tear_down, (void *)"shm"                            \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RING_TEST(bytes_come_out_as_they_went_in_round_and_round),
		RING_TEST(a_full_ring_has_no_room_until_it_is_read),
		RING_TEST(indices_more_than_a_ring_apart_are_refused),
		RING_TEST(who_changes_something_sees_who_sleeps_once),
		SHM_TEST(one_byte_wakes_for_many_frames),
		SHM_TEST(a_frame_longer_than_the_ring_wakes_its_reader),
		SHM_TEST(who_polls_is_not_woken),
		SHM_TEST(a_writer_is_woken_when_half_is_free),
		SHM_TEST(a_turn_takes_so_much_and_leaves_the_rest_for_the_next),
		SHM_TEST(a_busy_lane_leaves_the_loop_to_others),
		SHM_TEST(a_false_head_ends_the_lane),
		SHM_TEST(a_false_tail_ends_the_lane),
		SHM_TEST(bytes_that_are_no_frame_end_the_lane),
		SHM_TEST(a_frame_on_the_carrier_ends_the_lane),
		SHM_TEST(what_is_in_the_ring_at_the_end_is_handed_out),
		SHM_TEST(memory_is_counted_and_given_back),
		SHM_TEST(a_forked_child_has_none_of_its_descriptors),
		cmocka_unit_test(rings_get_shorter_with_what_others_have_taken),
		cmocka_unit_test(memory_is_counted_from_the_offer_on),
		cmocka_unit_test(it_is_known_where_the_kernel_may_refuse_pages),
		cmocka_unit_test(only_sealed_memory_of_the_right_size_is_taken),
		cmocka_unit_test(what_is_no_memory_is_refused),
		cmocka_unit_test(who_does_not_know_the_secret_is_not_heard),
		cmocka_unit_test(offers_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
