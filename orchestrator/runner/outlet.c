/* Writes to a descriptor that others share, without ever blocking on it. */
#include "orchestrator/runner/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"

#define PART_SIZE 4096 /* what a pipe or socket that poll() calls writable takes without blocking  \
			*/

/*
 * O_NONBLOCK belongs to the open file, which is the caller's shell's too: another open file of the
 * same pipe or terminal is made. Sockets cannot be opened again, nor what belongs to another user:
 * these are asked before each write.
 */
static void open_again(struct smd_outlet *outlet, int fd)
{
	char path[32];
	int own;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (own >= 0) {
		outlet->fd = own;
		outlet->is_own = 1;
	}
}

int smd_outlet_open(struct smd_outlet *outlet, int fd)
{
	struct stat status;

	*outlet = (struct smd_outlet){.fd = fd, .kept = evbuffer_new()};
	if (!outlet->kept) {
		return -ENOMEM;
	}
	if (fstat(fd, &status)) {
		outlet->fd = -1;
		return 0;
	}
	outlet->is_terminal = isatty(fd);
	outlet->is_file =
		!outlet->is_terminal && !S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode);
	if (!outlet->is_file) {
		open_again(outlet, fd);
	}
	return 0;
}

static void end(struct smd_outlet *outlet, int error)
{
	smd_outlet_detach(outlet);
	if (outlet->is_own) {
		close(outlet->fd);
	}
	outlet->fd = -1;
	outlet->error = error;
	evbuffer_drain(outlet->kept, evbuffer_get_length(outlet->kept));
}

/* How much may be written now; 0: nothing, without blocking. */
static ev_ssize_t writable_now(const struct smd_outlet *outlet)
{
	struct pollfd ready = {.fd = outlet->fd, .events = POLLOUT};

	if (outlet->is_own || outlet->is_file) {
		return -1; /* all of it */
	}
	return poll(&ready, 1, 0) > 0 ? PART_SIZE : 0;
}

/* 0, or errno; EAGAIN: not now. */
static int write_some(struct smd_outlet *outlet)
{
	ev_ssize_t most = writable_now(outlet);

	if (most == 0) {
		return EAGAIN;
	}
	return evbuffer_write_atmost(outlet->kept, outlet->fd, most) < 0 ? errno : 0;
}

static void wait_for_reader(const struct smd_outlet *outlet)
{
	struct pollfd ready = {.fd = outlet->fd, .events = POLLOUT};

	poll(&ready, 1, -1);
}

void smd_outlet_flush(struct smd_outlet *outlet)
{
	while (outlet->fd >= 0 && evbuffer_get_length(outlet->kept) > 0) {
		int error = write_some(outlet);

		if (error == EAGAIN && outlet->writable) {
			event_add(outlet->writable, NULL);
			return;
		}
		if (error == EAGAIN) {
			wait_for_reader(outlet);
		} else if (error && error != EINTR) {
			end(outlet, error);
		}
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	smd_outlet_flush(arg);
}

int smd_outlet_attach(struct smd_outlet *outlet, struct event_base *base)
{
	if (outlet->fd < 0 || outlet->is_file) {
		return 0;
	}
	outlet->writable = event_new(base, outlet->fd, EV_WRITE, on_writable, outlet);
	return outlet->writable ? 0 : -ENOMEM;
}

void smd_outlet_detach(struct smd_outlet *outlet)
{
	if (outlet->writable) {
		event_free(outlet->writable);
		outlet->writable = NULL;
	}
}

void smd_outlet_add(struct smd_outlet *outlet, const char *bytes, size_t count)
{
	if (outlet->fd >= 0) {
		evbuffer_add(outlet->kept, bytes, count);
	}
}

int smd_outlet_is_pending(const struct smd_outlet *outlet)
{
	return evbuffer_get_length(outlet->kept) > 0;
}

int smd_outlet_is_full(struct smd_outlet *outlet, int is_impatient)
{
	size_t kept = evbuffer_get_length(outlet->kept);
	uint64_t now;

	if (kept < SMD_OUTLET_MAX / 2) {
		outlet->full_ns = 0;
		outlet->drops = 0;
		return 0;
	}
	if (kept < SMD_OUTLET_MAX && !outlet->full_ns) {
		return 0;
	}
	now = smd_clock_ns();
	if (!outlet->full_ns) {
		outlet->full_ns = now;
	}
	outlet->drops |= is_impatient ||
			 now - outlet->full_ns >= SMD_OUTLET_PATIENCE_S * (uint64_t)SMD_SECOND_NS;
	return !outlet->drops;
}

int smd_outlet_drops(struct smd_outlet *outlet)
{
	smd_outlet_is_full(outlet, 1);
	return outlet->drops;
}

void smd_outlet_abandon(struct smd_outlet *outlet)
{
	if (smd_outlet_is_pending(outlet)) {
		end(outlet, 0);
	}
}

void smd_outlet_close(struct smd_outlet *outlet)
{
	if (outlet->fd >= 0) {
		end(outlet, 0);
	}
	if (outlet->kept) {
		evbuffer_free(outlet->kept);
	}
	*outlet = (struct smd_outlet){.fd = -1};
}
