/* Reads a command's standard error into a bounded memory of its last words. */
#include "orchestrator/engine/complaints.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/printable.h"

#define SHOWN_MAX 320 /* of the words in a message, whose end is the cause */

static void hear(struct smd_complaints *complaints)
{
	char bytes[512];
	ssize_t count;

	while (complaints->readable &&
		(count = read(event_get_fd(complaints->readable), bytes, sizeof(bytes))) > 0) {
		size_t kept = (size_t)count;
		size_t old = complaints->length;

		if (old + kept > SMD_COMPLAINTS_MAX) {
			old = SMD_COMPLAINTS_MAX - kept;
			memmove(complaints->words, complaints->words + complaints->length - old,
				old);
		}
		memcpy(complaints->words + old, bytes, kept);
		complaints->length = old + kept;
		complaints->words[complaints->length] = '\0';
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct smd_complaints *complaints = arg;
	char byte;

	(void)what;
	hear(complaints);
	if (read(fd, &byte, 1) == 0) {
		event_del(complaints->readable);
	}
}

int smd_complaints_open(struct smd_complaints *complaints, struct event_base *base, int *out)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC)) {
		return -errno;
	}
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	complaints->readable =
		event_new(base, fds[0], EV_READ | EV_PERSIST, on_readable, complaints);
	if (!complaints->readable || event_add(complaints->readable, NULL)) {
		if (complaints->readable) {
			event_free(complaints->readable);
			complaints->readable = NULL;
		}
		close(fds[0]);
		close(fds[1]);
		return -ENOMEM;
	}
	*out = fds[1];
	return 0;
}

void smd_complaints_close(struct smd_complaints *complaints)
{
	if (complaints->readable) {
		close(event_get_fd(complaints->readable));
		event_free(complaints->readable);
		complaints->readable = NULL;
	}
}

/* A sentence's full stop; an ellipsis stays. It goes into another sentence. */
static int ends_sentence(const char *words, size_t length)
{
	return length > 1 && words[length - 1] == '.' && words[length - 2] != '.';
}

const char *smd_complaints_last(struct smd_complaints *complaints)
{
	char *from = complaints->words;
	char *end;

	hear(complaints);
	while (complaints->length > 0 &&
		strchr("\r\n ", complaints->words[complaints->length - 1])) {
		complaints->words[--complaints->length] = '\0';
	}
	if (ends_sentence(complaints->words, complaints->length)) {
		complaints->words[--complaints->length] = '\0';
	}
	if (complaints->length > SHOWN_MAX) {
		from = complaints->words + complaints->length - SHOWN_MAX;
		end = strchr(from, '\n');
		from = end ? end + 1 : from;
	}
	for (char *at = from; (at = strpbrk(at, "\r\n")); at++) {
		*at = ' ';
	}
	smd_printable(from);
	return from;
}
