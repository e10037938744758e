/* Reads pipes while there is credit, and sends what comes. */
#include "worker/agent/host/pipes.h"

#include <errno.h>
#include <event2/event.h>
#include <unistd.h>

#include "reduction_server/base/bytes.h"

#define READ_SIZE 16384
#define REST_MAX  (1u << 20) /* of each pipe, when the command has ended */

static void send_output(struct smd_pipe *end, const uint8_t *bytes, size_t count)
{
	uint8_t head[SMD_AGENT_OUTPUT_HEAD];

	smd_put32(head, end->pipes->id);
	head[4] = (uint8_t)end->stream;
	smd_agent_link_send(
		end->pipes->own->link, SMD_AGENT_OUTPUT, head, sizeof(head), bytes, count);
}

static int takes_credit(const struct smd_pipe *end)
{
	return end->stream != SMD_AGENT_NOTIFY;
}

/* Watches the pipe while what comes may be sent. */
static void watch(struct smd_pipe *end)
{
	const struct smd_pipes *pipes = end->pipes;

	if (!end->event || end->has_ended) {
		return;
	}
	if (pipes->own->is_full || (takes_credit(end) && pipes->credit == 0)) {
		event_del(end->event);
	} else {
		event_add(end->event, NULL);
	}
}

void smd_pipes_watch(struct smd_pipes *pipes)
{
	for (int i = 0; i < SMD_AGENT_STREAMS; i++) {
		watch(&pipes->ends[i]);
	}
}

/* Reads once, at most `max` bytes. Bytes, 0 at the end, or negative: there is nothing now. */
static ssize_t read_pipe(struct smd_pipe *end, size_t max)
{
	uint8_t bytes[READ_SIZE];
	ssize_t count;

	do {
		count = read(
			event_get_fd(end->event), bytes, max < sizeof(bytes) ? max : sizeof(bytes));
	} while (count < 0 && errno == EINTR);
	if (count > 0) {
		send_output(end, bytes, (size_t)count);
	} else if (count == 0 || errno != EAGAIN) {
		end->has_ended = 1; /* a terminal that nobody has open gives an error */
		event_del(end->event);
	}
	return count;
}

static void on_pipe(evutil_socket_t fd, short what, void *arg)
{
	struct smd_pipe *end = arg;
	struct smd_pipes *pipes = end->pipes;
	size_t max = takes_credit(end) ? pipes->credit : READ_SIZE;
	ssize_t count;

	(void)fd;
	(void)what;
	count = max ? read_pipe(end, max) : -1;
	if (count > 0 && takes_credit(end)) {
		pipes->credit -= (uint32_t)count;
	}
	if (pipes->credit == 0) {
		smd_pipes_watch(pipes);
	}
}

int smd_pipes_open(struct smd_pipes *pipes, const struct smd_process *process)
{
	const int fds[SMD_AGENT_STREAMS] = {[SMD_AGENT_STDOUT] = process->stdout_fd,
		[SMD_AGENT_STDERR] = process->stderr_fd,
		[SMD_AGENT_NOTIFY] = process->notify_fd};
	int ret = 0;

	for (int i = 0; i < SMD_AGENT_STREAMS; i++) {
		struct smd_pipe *end = &pipes->ends[i];

		end->pipes = pipes;
		end->stream = (enum smd_agent_stream)i;
		if (fds[i] < 0) {
			continue;
		}
		end->event =
			event_new(pipes->own->base, fds[i], EV_READ | EV_PERSIST, on_pipe, end);
		if (!end->event) {
			close(fds[i]);
			ret = -ENOMEM;
		}
		watch(end);
	}
	return ret;
}

void smd_pipes_give_credit(struct smd_pipes *pipes, uint32_t bytes)
{
	pipes->credit = bytes > UINT32_MAX - pipes->credit ? UINT32_MAX : pipes->credit + bytes;
	smd_pipes_watch(pipes);
}

static void close_end(struct smd_pipe *end)
{
	if (end->event) {
		close(event_get_fd(end->event));
		event_free(end->event);
		end->event = NULL;
	}
}

/* The rest is bounded by what a pipe holds. */
static void drain(struct smd_pipe *end)
{
	size_t rest = REST_MAX;
	ssize_t count = 1;

	while (end->event && !end->has_ended && rest > 0 && count > 0) {
		count = read_pipe(end, rest);
		rest -= count > 0 ? (size_t)count : 0;
	}
	close_end(end);
}

void smd_pipes_drain(struct smd_pipes *pipes)
{
	for (int i = 0; i < SMD_AGENT_STREAMS; i++) {
		drain(&pipes->ends[i]);
	}
}

void smd_pipes_close(struct smd_pipes *pipes)
{
	for (int i = 0; i < SMD_AGENT_STREAMS; i++) {
		close_end(&pipes->ends[i]);
	}
}
