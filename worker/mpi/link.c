/* Connects, proves, and sends frames with their codes. */
#include "worker/mpi/link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/parse.h"
#include "reduction_server/wire/openssl.h"

#define MAGIC        "SMDMPI1\n"
#define MAGIC_SIZE   8
#define NONCE_SIZE   32
#define NAME_MAX_    64
#define HOST_MAX     256
#define HEADER_SIZE  5 /* the type, and the length */
#define BACKLOG      128
#define PROVE_TIME_S 10 /* a peer that says nothing holds no place for longer */
#define STALL_TIME_S 30 /* a frame that has begun is whole by then */
#define LOST_TIME_MS 20000

/* No proof begins like another one. */
#define CLIENT_PROOF "summand mpi starter"
#define SERVER_PROOF "summand mpi node"
#define CLIENT_KEY   "summand mpi from starter"
#define SERVER_KEY   "summand mpi from node"

/* What each end has said, in the order of the wire. */
struct server_words {
	uint8_t magic[MAGIC_SIZE];
	uint8_t nonce[NONCE_SIZE];
};

struct client_words {
	uint8_t magic[MAGIC_SIZE];
	uint8_t purpose;
	uint8_t nonce[NONCE_SIZE];
	uint8_t proof[SMD_HMAC_SIZE];
};

_Static_assert(sizeof(struct server_words) == MAGIC_SIZE + NONCE_SIZE, "no holes");
_Static_assert(
	sizeof(struct client_words) == MAGIC_SIZE + 1 + NONCE_SIZE + SMD_HMAC_SIZE, "no holes");

static size_t put(uint8_t *to, size_t used, const void *bytes, size_t length)
{
	to[used] = (uint8_t)length;
	memcpy(to + used + 1, bytes, length);
	return used + 1 + length;
}

/* The HMAC of what both have said, each part after its length. */
static int sign(const char *label, const struct smd_mpi_party *party,
	const struct server_words *server, const struct client_words *client,
	uint8_t out[SMD_HMAC_SIZE])
{
	uint8_t words[5 * (NAME_MAX_ + 1) + 1];
	size_t used = put(words, 0, label, strlen(label));

	if (strlen(party->job) > NAME_MAX_ || strlen(party->replica) > NAME_MAX_) {
		return -EINVAL;
	}
	used = put(words, used, server->nonce, NONCE_SIZE);
	used = put(words, used, client->nonce, NONCE_SIZE);
	used = put(words, used, party->job, strlen(party->job));
	used = put(words, used, party->replica, strlen(party->replica));
	words[used++] = client->purpose;
	return smd_openssl_hmac(party->token, words, used, out);
}

static int derive(const char *label, const struct smd_mpi_party *party,
	const struct server_words *server, const struct client_words *client,
	char key[SMD_MPI_SESSION_KEY])
{
	uint8_t bytes[SMD_HMAC_SIZE];
	int ret = sign(label, party, server, client, bytes);

	for (size_t i = 0; !ret && i < sizeof(bytes); i++) {
		snprintf(key + 2 * i, 3, "%02x", bytes[i]);
	}
	explicit_bzero(bytes, sizeof(bytes));
	return ret;
}

/* In a time that does not depend on where they differ. */
static int equals(const uint8_t *a, const uint8_t *b, size_t length)
{
	unsigned char difference = 0;

	for (size_t i = 0; i < length; i++) {
		difference |= a[i] ^ b[i];
	}
	return difference == 0;
}

static int read_all(int fd, void *bytes, size_t length)
{
	while (length > 0) {
		ssize_t n = recv(fd, bytes, length, 0);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 && errno != EAGAIN ? -errno
			       : n == 0                 ? -ECONNRESET
							: -ETIMEDOUT;
		}
		bytes = (char *)bytes + n;
		length -= (size_t)n;
	}
	return 0;
}

static int write_all(int fd, const void *bytes, size_t length)
{
	while (length > 0) {
		ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		}
		bytes = (const char *)bytes + n;
		length -= (size_t)n;
	}
	return 0;
}

static void limit_time(int fd, int option, int seconds)
{
	const struct timeval time = {.tv_sec = seconds};

	setsockopt(fd, SOL_SOCKET, option, &time, sizeof(time));
}

/* A host that is lost is noticed, also while nothing is said. */
static void watch(int fd)
{
	const struct {
		int level;
		int option;
		int value;
	} settings[] = {
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 5},
		{IPPROTO_TCP, TCP_KEEPINTVL, 5},
		{IPPROTO_TCP, TCP_KEEPCNT, 3},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, LOST_TIME_MS},
		{IPPROTO_TCP, TCP_NODELAY, 1},
	};

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		setsockopt(fd, settings[i].level, settings[i].option, &settings[i].value,
			sizeof(settings[i].value));
	}
	limit_time(fd, SO_RCVTIMEO, PROVE_TIME_S);
	limit_time(fd, SO_SNDTIMEO, PROVE_TIME_S);
}

/* Whoever reads a daemon's output may take its time, so sending has no limit but the loss of it. */
static void relax(int fd)
{
	limit_time(fd, SO_RCVTIMEO, STALL_TIME_S);
	limit_time(fd, SO_SNDTIMEO, 0);
}

static int resolve(const char *endpoint, int flags, struct addrinfo **out, struct smd_error *error)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
	char host[HOST_MAX];
	char service[8];
	uint16_t port;
	int ret = smd_parse_endpoint(endpoint, host, sizeof(host), &port);

	if (ret) {
		return smd_error_set(error, EINVAL, "must be HOST:PORT, got %s", endpoint);
	}
	snprintf(service, sizeof(service), "%u", port);
	ret = getaddrinfo(host, service, &hints, out);
	return ret ? smd_error_set(error, EHOSTUNREACH, "%s: %s", endpoint, gai_strerror(ret)) : 0;
}

int smd_mpi_listen(const char *endpoint, struct smd_error *error)
{
	const int yes = 1;
	struct addrinfo *address;
	int ret = resolve(endpoint, 0, &address, error);
	int fd;

	if (ret) {
		return ret;
	}
	fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	}
	if (fd < 0 || bind(fd, address->ai_addr, address->ai_addrlen) || listen(fd, BACKLOG)) {
		ret = smd_error_set(error, errno, "%s: cannot be listened on: %m", endpoint);
		if (fd >= 0) {
			close(fd);
		}
		fd = ret;
	}
	freeaddrinfo(address);
	return fd;
}

static int prove_as_client(
	int fd, const struct smd_mpi_party *party, int purpose, struct smd_mpi_link *link)
{
	struct client_words mine = {.magic = MAGIC, .purpose = (uint8_t)purpose};
	struct server_words theirs;
	uint8_t expected[SMD_HMAC_SIZE];
	uint8_t proof[SMD_HMAC_SIZE];
	int ret = read_all(fd, &theirs, sizeof(theirs));

	if (!ret && memcmp(theirs.magic, MAGIC, MAGIC_SIZE) != 0) {
		return -EPROTO;
	}
	if (!ret && getrandom(mine.nonce, NONCE_SIZE, 0) != NONCE_SIZE) {
		return -EIO;
	}
	ret = ret ? ret : sign(CLIENT_PROOF, party, &theirs, &mine, mine.proof);
	ret = ret ? ret : write_all(fd, &mine, sizeof(mine));
	ret = ret ? ret : read_all(fd, proof, sizeof(proof));
	if (ret) {
		return ret == -ECONNRESET ? -EACCES : ret; /* it says nothing to those it refuses */
	}
	ret = sign(SERVER_PROOF, party, &theirs, &mine, expected);
	if (!ret && !equals(proof, expected, sizeof(proof))) {
		return -EACCES;
	}
	ret = ret ? ret : derive(CLIENT_KEY, party, &theirs, &mine, link->sending);
	return ret ? ret : derive(SERVER_KEY, party, &theirs, &mine, link->receiving);
}

static int prove_as_server(
	int fd, const struct smd_mpi_party *party, int *purpose, struct smd_mpi_link *link)
{
	struct server_words mine = {.magic = MAGIC};
	struct client_words theirs;
	uint8_t proof[SMD_HMAC_SIZE];
	int ret = getrandom(mine.nonce, NONCE_SIZE, 0) == NONCE_SIZE ? 0 : -EIO;

	ret = ret ? ret : write_all(fd, &mine, sizeof(mine));
	ret = ret ? ret : read_all(fd, &theirs, sizeof(theirs));
	if (ret) {
		return ret;
	}
	if (memcmp(theirs.magic, MAGIC, MAGIC_SIZE) != 0 ||
		(theirs.purpose != SMD_MPI_START && theirs.purpose != SMD_MPI_ATTEND)) {
		return -EPROTO;
	}
	ret = sign(CLIENT_PROOF, party, &mine, &theirs, proof);
	if (!ret && !equals(proof, theirs.proof, sizeof(proof))) {
		return -EACCES;
	}
	ret = ret ? ret : sign(SERVER_PROOF, party, &mine, &theirs, proof);
	ret = ret ? ret : write_all(fd, proof, sizeof(proof));
	ret = ret ? ret : derive(SERVER_KEY, party, &mine, &theirs, link->sending);
	ret = ret ? ret : derive(CLIENT_KEY, party, &mine, &theirs, link->receiving);
	*purpose = theirs.purpose;
	return ret;
}

static const char *reason(int ret)
{
	return ret == -EACCES       ? "the other end has another token, or is of another job"
	       : ret == -EPROTO     ? "the other end speaks something else"
	       : ret == -ECONNRESET ? "the other end has closed the connection"
				    : strerror(-ret);
}

static int open_socket(const struct addrinfo *address)
{
	int fd = -1;
	int err = EHOSTUNREACH;

	for (; address && fd < 0; address = address->ai_next) {
		fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0) {
			err = errno;
			continue;
		}
		watch(fd);
		if (connect(fd, address->ai_addr, address->ai_addrlen)) {
			err = errno == EINPROGRESS ? ETIMEDOUT : errno;
			close(fd);
			fd = -1;
		}
	}
	return fd >= 0 ? fd : -err;
}

int smd_mpi_connect(const char *endpoint, enum smd_mpi_purpose purpose,
	const struct smd_mpi_party *party, struct smd_mpi_link *out, struct smd_error *error)
{
	struct smd_mpi_link link = {.fd = -1};
	struct addrinfo *address;
	int ret = resolve(endpoint, 0, &address, error);

	*out = link;
	if (ret) {
		return ret;
	}
	link.fd = open_socket(address);
	freeaddrinfo(address);
	ret = link.fd < 0 ? link.fd : prove_as_client(link.fd, party, purpose, &link);
	if (ret) {
		smd_mpi_link_close(&link);
		return smd_error_set(
			error, -ret, "%s at %s: %s", party->replica, endpoint, reason(ret));
	}
	relax(link.fd);
	*out = link;
	return 0;
}

int smd_mpi_accept(int fd, const struct smd_mpi_party *party, struct smd_mpi_link *out,
	enum smd_mpi_purpose *purpose, struct smd_error *error)
{
	struct smd_mpi_link link = {.fd = fd};
	int said = 0;
	int ret;

	*out = (struct smd_mpi_link){.fd = -1};
	watch(fd);
	ret = prove_as_server(fd, party, &said, &link);
	if (ret) {
		smd_mpi_link_close(&link);
		return smd_error_set(error, -ret, "a connection is refused: %s", reason(ret));
	}
	relax(fd);
	*purpose = (enum smd_mpi_purpose)said;
	*out = link;
	return 0;
}

/* The code of a frame: of its number, type and bytes, by the key of its direction. */
static int code(const char *key, uint64_t number, const uint8_t header[HEADER_SIZE],
	const void *bytes, size_t length, uint8_t out[SMD_HMAC_SIZE])
{
	static uint8_t words[8 + HEADER_SIZE + SMD_MPI_FRAME_MAX];

	for (int i = 0; i < 8; i++) {
		words[i] = (uint8_t)(number >> 8 * i);
	}
	memcpy(words + 8, header, HEADER_SIZE);
	if (length > 0) {
		memcpy(words + 8 + HEADER_SIZE, bytes, length);
	}
	return smd_openssl_hmac(key, words, 8 + HEADER_SIZE + length, out);
}

int smd_mpi_send(struct smd_mpi_link *link, int type, const void *bytes, size_t length)
{
	uint8_t header[HEADER_SIZE] = {(uint8_t)type};
	uint8_t hmac[SMD_HMAC_SIZE];
	int ret;

	if (length > SMD_MPI_FRAME_MAX) {
		return -E2BIG;
	}
	for (int i = 0; i < 4; i++) {
		header[1 + i] = (uint8_t)(length >> 8 * i);
	}
	ret = code(link->sending, link->sent++, header, bytes, length, hmac);
	ret = ret ? ret : write_all(link->fd, header, sizeof(header));
	ret = ret ? ret : write_all(link->fd, bytes, length);
	return ret ? ret : write_all(link->fd, hmac, sizeof(hmac));
}

int smd_mpi_send_number(struct smd_mpi_link *link, int type, uint32_t number)
{
	const uint8_t bytes[4] = {(uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16),
		(uint8_t)(number >> 24)};

	return smd_mpi_send(link, type, bytes, sizeof(bytes));
}

int smd_mpi_receive(struct smd_mpi_link *link, struct smd_mpi_frame *frame)
{
	uint8_t header[HEADER_SIZE];
	uint8_t hmac[SMD_HMAC_SIZE];
	uint8_t expected[SMD_HMAC_SIZE];
	int ret = read_all(link->fd, header, sizeof(header));

	if (ret) {
		return ret;
	}
	frame->type = header[0];
	frame->length = (size_t)header[1] | (size_t)header[2] << 8 | (size_t)header[3] << 16 |
			(size_t)header[4] << 24;
	if (frame->length > SMD_MPI_FRAME_MAX) {
		return -EPROTO;
	}
	ret = read_all(link->fd, frame->bytes, frame->length);
	ret = ret ? ret : read_all(link->fd, hmac, sizeof(hmac));
	ret = ret ? ret
		  : code(link->receiving, link->received++, header, frame->bytes, frame->length,
			    expected);
	frame->bytes[ret ? 0 : frame->length] = '\0';
	return ret ? ret : equals(hmac, expected, sizeof(hmac)) ? 0 : -EPROTO;
}

int smd_mpi_frame_number(const struct smd_mpi_frame *frame, uint32_t *out)
{
	const uint8_t *bytes = (const uint8_t *)frame->bytes;

	if (frame->length != 4) {
		return -EPROTO;
	}
	*out = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
	return 0;
}

void smd_mpi_link_close(struct smd_mpi_link *link)
{
	if (link->fd >= 0) {
		close(link->fd);
	}
	explicit_bzero(link, sizeof(*link));
	link->fd = -1;
}
