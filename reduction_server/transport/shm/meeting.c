/* Passes a descriptor over a Unix socket to who has told a secret before. */
#include "reduction_server/transport/shm/meeting.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 8 /* who is none of us may be there too */

union passing {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(int))];
};

static socklen_t name_of(const struct shm_meeting *meeting, struct sockaddr_un *out)
{
	uint64_t number;
	int length;

	memcpy(&number, meeting->name, sizeof(number));
	*out = (struct sockaddr_un){
		.sun_family = AF_UNIX}; /* sun_path[0] is 0: in no file system */
	length = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "summand-shm-%016llx",
		(unsigned long long)number);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int unix_socket(struct smd_error *error)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? smd_error_set(error, errno, "shm: no Unix socket: %m") : fd;
}

int smd_shm_meeting_open(struct shm_meeting *meeting, struct smd_error *error)
{
	struct sockaddr_un name;
	socklen_t length;
	int fd;

	if (getrandom(meeting, sizeof(*meeting), 0) != sizeof(*meeting)) {
		return smd_error_set(error, EIO, "shm: no random numbers are there");
	}
	fd = unix_socket(error);
	if (fd < 0) {
		return fd;
	}
	length = name_of(meeting, &name);
	if (bind(fd, (const struct sockaddr *)&name, length) != 0 || listen(fd, BACKLOG) != 0) {
		int ret = smd_error_set(error, errno, "shm: cannot listen on a Unix socket: %m");

		close(fd);
		return ret;
	}
	return fd;
}

/* ---- who connects ---- */

static int pass(const struct shm_meeting *meeting, int fd, int memory)
{
	struct iovec words = {(void *)meeting->secret, sizeof(meeting->secret)};
	union passing passing = {.room = {0}};
	struct msghdr message = {
		.msg_iov = &words,
		.msg_iovlen = 1,
		.msg_control = passing.room,
		.msg_controllen = sizeof(passing.room),
	};
	struct cmsghdr *control = CMSG_FIRSTHDR(&message);
	ssize_t sent;

	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof(memory));
	memcpy(CMSG_DATA(control), &memory, sizeof(memory));
	sent = sendmsg(fd, &message, MSG_NOSIGNAL);
	return sent < 0 ? -errno : sent == sizeof(meeting->secret) ? 0 : -EIO;
}

int smd_shm_meeting_pass(const struct shm_meeting *meeting, int memory, struct smd_error *error)
{
	struct sockaddr_un name;
	socklen_t length = name_of(meeting, &name);
	int fd = unix_socket(error);
	int ret;

	if (fd < 0) {
		return fd;
	}
	ret = connect(fd, (const struct sockaddr *)&name, length) == 0 ? 0 : -errno;
	if (ret) {
		/* Whatever keeps it from there, another transport may not be kept. */
		smd_error_set(error, -ret,
			"shm: the server's Unix socket cannot be reached (%s): it may be in "
			"another network namespace",
			strerror(-ret));
	} else {
		ret = pass(meeting, fd, memory);
		if (ret) {
			smd_error_set(error, -ret, "shm: cannot pass memory: %s", strerror(-ret));
		}
	}
	if (ret) {
		close(fd);
		return -EHOSTUNREACH;
	}
	return fd;
}

/* ---- who listens ---- */

/* The descriptor that came with the secret; -1: something else has come. */
static int receive(const struct shm_meeting *meeting, int fd)
{
	uint8_t secret[SMD_SHM_SECRET_SIZE];
	struct iovec words = {secret, sizeof(secret)};
	union passing passing;
	struct msghdr message = {
		.msg_iov = &words,
		.msg_iovlen = 1,
		.msg_control = passing.room,
		.msg_controllen = CMSG_LEN(sizeof(int)), /* there is no room for a second one */
	};
	ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *control = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
	uint8_t different = got != sizeof(secret);
	int memory = -1;

	if (control && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS &&
		control->cmsg_len == CMSG_LEN(sizeof(memory))) {
		memcpy(&memory, CMSG_DATA(control), sizeof(memory));
	}
	for (size_t i = 0; i < sizeof(secret) && got == sizeof(secret); i++) {
		different |= secret[i] ^ meeting->secret[i]; /* in the same time for each */
	}
	if (memory >= 0 && different) {
		close(memory);
		memory = -1;
	}
	return memory;
}

int smd_shm_meeting_take(
	const struct shm_meeting *meeting, int listener, int *memory, struct smd_error *error)
{
	for (unsigned i = 0; i < 4 * BACKLOG; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			break;
		}
		if (fd < 0) {
			return smd_error_set(error, errno, "shm: cannot take memory: %m");
		}
		*memory = receive(meeting, fd);
		if (*memory >= 0) {
			return fd;
		}
		close(fd);
	}
	return smd_error_set(error, ENOENT, "shm: nobody has passed memory");
}
