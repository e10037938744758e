/*
 * What crosses a lane in records of TLS.
 *
 * Received payloads are decrypted and then copied once, to where they belong. What is sent leaves
 * in full records: OpenSSL encrypts a large payload from where it lies, and small pieces, such as
 * headers, are gathered into a record first. A record that the socket does not take whole must be
 * written again from the same bytes. Those of a gathered one are its own, so their frames count as
 * sent; those of a payload are its frame's, which counts as sent later.
 */
#include <errno.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/uio.h>

#include "reduction_server/transport/tcp/tls_lane.h"

/* ---- receiving ---- */

static ssize_t tls_receive(struct tcp_lane *tcp, const struct iovec *iov, int n)
{
	struct tcp_tls *tls = tcp->tls;
	size_t total = 0;

	ERR_clear_error(); /* of the program whose thread this is */
	for (int i = 0; i < n; i++) {
		for (size_t at = 0; at < iov[i].iov_len;) {
			size_t got = 0;
			int ret = tls->err || tls->over
					  ? 0
					  : SSL_read_ex(tls->ssl, (uint8_t *)iov[i].iov_base + at,
						    iov[i].iov_len - at, &got);

			if (ret != 1) {
				errno = smd_tcp_tls_failed(tcp, ret);
				return total ? (ssize_t)total : tls->over ? 0 : -1;
			}
			at += got;
			total += got;
		}
	}
	return (ssize_t)total;
}

/* ---- sending ---- */

/* Where the next record's bytes come from. */
struct source {
	const struct iovec *iov;
	int n;
	size_t at; /* in the first */
};

static void source_skip(struct source *source, size_t bytes)
{
	source->at += bytes;
	if (source->n && source->at == source->iov->iov_len) {
		source->iov++;
		source->n--;
		source->at = 0;
	}
}

/* A record's bytes: where they lie together, or in `staged`. */
static const uint8_t *source_take(struct source *source, uint8_t *staged, size_t *length)
{
	*length = 0;
	if (source->n && source->iov->iov_len - source->at >= SMD_TLS_RECORD_MAX) {
		const uint8_t *bytes = (const uint8_t *)source->iov->iov_base + source->at;

		*length = SMD_TLS_RECORD_MAX;
		source_skip(source, SMD_TLS_RECORD_MAX);
		return bytes;
	}
	while (source->n && *length < SMD_TLS_RECORD_MAX) {
		size_t take = source->iov->iov_len - source->at;

		take = take < SMD_TLS_RECORD_MAX - *length ? take : SMD_TLS_RECORD_MAX - *length;
		memcpy(staged + *length, (const uint8_t *)source->iov->iov_base + source->at, take);
		*length += take;
		source_skip(source, take);
	}
	return staged;
}

/* 0 when the socket has the record; an errno, and the record is kept while that is EAGAIN. */
static int tls_write(struct tcp_lane *tcp, const uint8_t *bytes, size_t length)
{
	struct tcp_tls *tls = tcp->tls;
	size_t written;
	int ret;

	if (tls->err) {
		return tls->err;
	}
	if (tls->records >= tls->rekey && !tls->pending &&
		SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
		tls->records = 0;
	}
	ret = SSL_write_ex(tls->ssl, bytes, length, &written);
	if (ret != 1) {
		tls->pending = bytes;
		tls->pending_length = length;
		return smd_tcp_tls_failed(tcp, ret);
	}
	tls->records++;
	tls->pending = NULL;
	return 0;
}

/* The record that was kept: how many bytes of the queue's have left with it, or -1 and errno. */
static ssize_t tls_write_pending(struct tcp_lane *tcp)
{
	struct tcp_tls *tls = tcp->tls;
	int err = tls_write(tcp, tls->pending, tls->pending_length);
	bool staged = tcp->unsent;

	if (err) {
		errno = err;
		return -1;
	}
	tcp->unsent = false;
	return staged ? 0 : (ssize_t)tls->pending_length;
}

static ssize_t tls_send(struct tcp_lane *tcp, struct iovec *iov, int n)
{
	struct tcp_tls *tls = tcp->tls;
	struct source source = {iov, n, 0};
	size_t total = 0;
	int err = 0;

	ERR_clear_error();
	if (tls->pending) {
		return tls_write_pending(tcp);
	}
	while (source.n && err == 0) {
		size_t length;
		const uint8_t *bytes = source_take(&source, tls->staged, &length);

		err = tls_write(tcp, bytes, length);
		tcp->unsent = err == EAGAIN && bytes == tls->staged;
		total += err == 0 || tcp->unsent ? length : 0;
	}
	errno = err;
	return total || err == 0 ? (ssize_t)total : -1;
}

const struct tcp_stream smd_tcp_tls = {
	.receive = tls_receive,
	.send = tls_send,
};
