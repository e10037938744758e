/* Connects, and encrypts where the URL says so. */
#include "orchestrator/client/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SMD_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/address.h"

#define MS_NS 1000000

struct smd_channel {
	int fd; /* does not block */
	uint64_t deadline_ns;
#ifdef SMD_TLS
	SSL_CTX *context;
	SSL *tls; /* NULL: in clear */
#endif
};

/* Until the descriptor is ready, or time is up. */
static int wait_for(const struct smd_channel *channel, short what, struct smd_error *error)
{
	struct pollfd poller = {.fd = channel->fd, .events = what};
	int count;

	do {
		uint64_t now = smd_clock_ns();

		count = now < channel->deadline_ns
				? poll(&poller, 1, (int)((channel->deadline_ns - now) / MS_NS) + 1)
				: 0;
	} while (count < 0 && errno == EINTR);
	return count > 0 ? 0
	       : count  ? smd_error_set(error, errno, "%s", strerror(errno))
			: smd_error_set(error, ETIMEDOUT, "it must answer in time");
}

/* ---- connecting ---- */

static int connect_to(
	struct smd_channel *channel, const struct addrinfo *address, struct smd_error *error)
{
	int reason = 0;
	socklen_t size = sizeof(reason);
	int ret;

	channel->fd = socket(
		address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (channel->fd < 0) {
		return smd_error_set(error, errno, "%s", strerror(errno));
	}
	if (connect(channel->fd, address->ai_addr, address->ai_addrlen) && errno != EINPROGRESS) {
		return smd_error_set(error, errno, "%s", strerror(errno));
	}
	ret = wait_for(channel, POLLOUT, error);
	if (!ret && (getsockopt(channel->fd, SOL_SOCKET, SO_ERROR, &reason, &size) || reason)) {
		ret = smd_error_set(error, reason ? reason : errno, "%s",
			strerror(reason ? reason : errno));
	}
	return ret;
}

/* The first address that takes us. */
static int connect_any(struct smd_channel *channel, const char *endpoint, struct smd_error *error)
{
	struct smd_error reason = {""};
	struct addrinfo *list;
	int ret = smd_address_resolve(endpoint, 0, &list, error);

	if (ret) {
		return ret;
	}
	for (const struct addrinfo *address = list; address; address = address->ai_next) {
		reason = (struct smd_error){""};
		ret = connect_to(channel, address, &reason);
		if (ret == 0) {
			break;
		}
		if (channel->fd >= 0) {
			close(channel->fd);
			channel->fd = -1;
		}
	}
	freeaddrinfo(list);
	return ret ? smd_error_set(error, -ret, "%s", reason.text) : 0;
}

/* ---- TLS ---- */

#ifdef SMD_TLS

static int fail_tls(const struct smd_channel *channel, struct smd_error *error)
{
	long verdict = channel->tls ? SSL_get_verify_result(channel->tls) : X509_V_OK;
	const char *reason = verdict != X509_V_OK ? X509_verify_cert_error_string(verdict)
						  : ERR_reason_error_string(ERR_peek_error());

	return smd_error_set(error, EPROTO, "TLS: %s", reason ? reason : "broken off");
}

/* 0: what it waits for is there; it is to be tried again. */
static int wait_for_tls(const struct smd_channel *channel, int result, struct smd_error *error)
{
	switch (SSL_get_error(channel->tls, result)) {
	case SSL_ERROR_WANT_READ:
		return wait_for(channel, POLLIN, error);
	case SSL_ERROR_WANT_WRITE:
		return wait_for(channel, POLLOUT, error);
	default:
		return fail_tls(channel, error);
	}
}

/* The name in the certificate must be the URL's: a name, or an address. */
static int expect_host(SSL *tls, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];
	X509_VERIFY_PARAM *param = SSL_get0_param(tls);

	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1) {
		return X509_VERIFY_PARAM_set1_ip_asc(param, host);
	}
	return SSL_set_tlsext_host_name(tls, host) && SSL_set1_host(tls, host);
}

static int make_context(
	struct smd_channel *channel, const struct smd_http_reach *reach, struct smd_error *error)
{
	ERR_clear_error();
	channel->context = SSL_CTX_new(TLS_client_method());
	if (!channel->context) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	SSL_CTX_set_min_proto_version(channel->context, TLS1_2_VERSION);
	SSL_CTX_set_verify(channel->context, SSL_VERIFY_PEER, NULL);
	if (!(reach->ca_file
			    ? SSL_CTX_load_verify_file(channel->context, reach->ca_file)
			    : SSL_CTX_set_default_verify_paths(channel->context))) {
		return smd_error_set(error, EINVAL, "%s: must hold certificates in PEM",
			reach->ca_file ? reach->ca_file : "the system's authorities");
	}
	if (reach->cert_file &&
		(SSL_CTX_use_certificate_chain_file(channel->context, reach->cert_file) != 1 ||
			SSL_CTX_use_PrivateKey_file(
				channel->context, reach->key_file, SSL_FILETYPE_PEM) != 1)) {
		return smd_error_set(error, EINVAL, "%s, %s: must hold a certificate and its key in PEM",
			reach->cert_file, reach->key_file);
	}
	return 0;
}

static int encrypt(struct smd_channel *channel, const struct smd_url *url,
	const struct smd_http_reach *reach, struct smd_error *error)
{
	int ret = make_context(channel, reach, error);
	int result;

	if (ret) {
		return ret;
	}
	channel->tls = SSL_new(channel->context);
	if (!channel->tls || !SSL_set_fd(channel->tls, channel->fd) ||
		!expect_host(channel->tls, url->host)) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	while (!ret && (result = SSL_connect(channel->tls)) != 1) {
		ret = wait_for_tls(channel, result, error);
	}
	return ret;
}

/* SSL_read() and SSL_write() in one: -EAGAIN after a wait. */
static ssize_t move_tls(struct smd_channel *channel, char *in, const char *out, size_t size,
	struct smd_error *error)
{
	size_t moved = 0;
	int result;
	int ret;

	ERR_clear_error();
	result = in ? SSL_read_ex(channel->tls, in, size, &moved)
		    : SSL_write_ex(channel->tls, out, size, &moved);
	if (result == 1) {
		return (ssize_t)moved;
	}
	/* Some end without saying so, and lengths tell what is missing. */
	if (in && (SSL_get_error(channel->tls, result) == SSL_ERROR_ZERO_RETURN ||
			  ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)) {
		return 0;
	}
	ret = wait_for_tls(channel, result, error);
	return ret ? ret : -EAGAIN;
}

#endif

/* ---- bytes ---- */

static ssize_t move(struct smd_channel *channel, char *in, const char *out, size_t size,
	struct smd_error *error)
{
	ssize_t count;
	int ret;

#ifdef SMD_TLS
	if (channel->tls) {
		return move_tls(channel, in, out, size, error);
	}
#endif
	count = in ? recv(channel->fd, in, size, 0) : send(channel->fd, out, size, MSG_NOSIGNAL);
	if (count >= 0) {
		return count;
	}
	if (errno != EAGAIN && errno != EINTR) {
		return smd_error_set(error, errno, "%s", strerror(errno));
	}
	ret = wait_for(channel, in ? POLLIN : POLLOUT, error);
	return ret ? ret : -EAGAIN;
}

int smd_channel_write(struct smd_channel *channel, const char *bytes, size_t length,
	struct smd_error *error)
{
	while (length > 0) {
		ssize_t count = move(channel, NULL, bytes, length, error);

		if (count < 0 && count != -EAGAIN) {
			return (int)count;
		}
		if (count > 0) {
			bytes += count;
			length -= (size_t)count;
		}
	}
	return 0;
}

ssize_t smd_channel_read(
	struct smd_channel *channel, char *bytes, size_t size, struct smd_error *error)
{
	ssize_t count;

	do {
		count = move(channel, bytes, NULL, size, error);
	} while (count == -EAGAIN);
	return count;
}

int smd_channel_open(const struct smd_url *url, const struct smd_http_reach *reach,
	uint64_t deadline_ns, struct smd_channel **out, struct smd_error *error)
{
	struct smd_channel *channel = calloc(1, sizeof(*channel));
	int ret;

	if (!channel) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	channel->fd = -1;
	channel->deadline_ns = deadline_ns;
	ret = connect_any(channel, url->endpoint, error);
	if (!ret && url->is_tls) {
#ifdef SMD_TLS
		ret = encrypt(channel, url, reach, error);
#else
		(void)reach;
		ret = smd_error_set(error, ENOTSUP, "this summand was built without TLS");
#endif
	}
	if (ret) {
		smd_channel_close(channel);
		return ret;
	}
	*out = channel;
	return 0;
}

void smd_channel_close(struct smd_channel *channel)
{
#ifdef SMD_TLS
	if (channel->tls) {
		SSL_shutdown(channel->tls);
		SSL_free(channel->tls);
	}
	SSL_CTX_free(channel->context);
#endif
	if (channel->fd >= 0) {
		close(channel->fd);
	}
	free(channel);
}
