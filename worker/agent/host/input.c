/* Writes what comes for a session. */
#include "worker/agent/host/input.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define END_OF_FILE "\4" /* as a terminal in its usual mode takes it */

void smd_input_close(struct smd_input *input)
{
	if (input->event) {
		close(event_get_fd(input->event));
		event_free(input->event);
		evbuffer_free(input->bytes);
		input->event = NULL;
	}
}

static void give_credit(const struct smd_input *input, size_t count)
{
	smd_agent_link_send_credit(input->own->link, input->id, (uint32_t)count);
}

/* Writes what is taken now. */
static void flush(struct smd_input *input)
{
	int count = 1;

	while (input->event && evbuffer_get_length(input->bytes) > 0 && count > 0) {
		count = evbuffer_write(input->bytes, event_get_fd(input->event));
		if (count > 0) {
			give_credit(input, (size_t)count);
		} else if (errno != EAGAIN && errno != EINTR) {
			smd_input_close(input); /* nobody reads it any more */
		}
	}
	if (!input->event) {
		return;
	}
	if (evbuffer_get_length(input->bytes) > 0) {
		event_add(input->event, NULL);
	} else if (input->is_ending && !input->is_terminal) {
		smd_input_close(input);
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	flush(arg);
}

int smd_input_open(struct smd_input *input, int fd, int is_terminal)
{
	if (fd < 0) {
		return 0;
	}
	input->is_terminal = is_terminal;
	input->bytes = evbuffer_new();
	input->event = input->bytes
			       ? event_new(input->own->base, fd, EV_WRITE, on_writable, input)
			       : NULL;
	if (!input->event) {
		close(fd);
		if (input->bytes) {
			evbuffer_free(input->bytes);
		}
		return -ENOMEM;
	}
	return 0;
}

int smd_input_feed(
	struct smd_input *input, const void *bytes, size_t count, struct smd_error *error)
{
	if (!input->event || input->is_ending) {
		return 0;
	}
	if (evbuffer_get_length(input->bytes) + count > SMD_AGENT_INPUT_WINDOW) {
		return smd_error_set(error, EPROTO, "more input came than there was credit for");
	}
	if (count == 0) {
		input->is_ending = 1;
		bytes = END_OF_FILE;
		count = input->is_terminal ? strlen(END_OF_FILE) : 0;
	}
	if (evbuffer_add(input->bytes, bytes, count)) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	flush(input);
	return 0;
}

void smd_input_resize(const struct smd_input *input, const struct smd_terminal *size)
{
	const struct winsize wanted = {.ws_row = (unsigned short)size->rows,
		.ws_col = (unsigned short)size->columns};

	if (input->event && input->is_terminal) {
		ioctl(event_get_fd(input->event), TIOCSWINSZ, &wanted);
	}
}
