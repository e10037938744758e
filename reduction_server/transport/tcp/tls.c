/* The life of a lane's TLS: how it begins, how both ends agree, and the end. */
#include "reduction_server/transport/tcp/tls.h"
#include "reduction_server/transport/tcp/tls_lane.h"

#include <errno.h>
#include <event2/event.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "reduction_server/base/log.h"
#include "reduction_server/wire/message.h"

#define HANDSHAKE_RECORD 0x16 /* what TLS begins with, */
#define ALERT_RECORD     0x15 /* if not with why it cannot */
#define REFUSED          "it speaks no TLS, and this end nothing else"
#define REFUSED_WORKER   "this server takes workers over TLS only: set SUMMAND_TLS=1"

/* ---- beginning ---- */

int smd_tcp_tls_create(struct tcp_lane *tcp, SSL_CTX *context)
{
	struct tcp_tls *tls = calloc(1, sizeof(*tls));

	if (!tls) {
		return -ENOMEM;
	}
	SSL_CTX_up_ref(context);
	tls->context = context;
	tls->rekey = SMD_TLS_KEY_RECORDS;
	tcp->tls = tls;
	tcp->stream = &smd_tcp_tls;
	tcp->securing = true;
	return 0;
}

/* Who has sent nothing yet costs no more than that. */
static int tls_begin(struct tcp_lane *tcp, bool connects)
{
	struct tcp_tls *tls = tcp->tls;
	BIO *socket = smd_tls_socket_create(tcp);

	tls->ssl = socket ? SSL_new(tls->context) : NULL;
	/* It takes memory of its own; without it the callbacks would find no lane. */
	if (!tls->ssl || !SSL_set_app_data(tls->ssl, tcp)) {
		SSL_free(tls->ssl);
		tls->ssl = NULL;
		BIO_free(socket);
		ERR_clear_error();
		return -ENOMEM;
	}
	SSL_set_bio(tls->ssl, socket, socket);
	if (connects) {
		SSL_set_connect_state(tls->ssl);
	} else {
		SSL_set_accept_state(tls->ssl);
	}
	return 0;
}

int smd_tcp_encrypt(struct smd_lane *lane, const struct smd_lane_key *key, struct smd_error *error)
{
	struct tcp_lane *tcp = (struct tcp_lane *)lane;
	SSL_CTX *context = smd_tls_context_create(NULL, error);
	int ret;

	if (!context) {
		return -ENOTSUP;
	}
	ret = smd_tcp_tls_create(tcp, context);
	smd_tls_context_free(context); /* the lane has one more */
	if (ret == 0) {
		tcp->tls->key = *key;
		ret = tls_begin(tcp, true);
	}
	return ret ? smd_error_set(error, -ret, "%s: TLS: out of memory", tcp->peer) : 0;
}

/* ---- agreeing ---- */

/* A worker without TLS reads frames: it gets one. */
static void tls_refuse_frame(struct tcp_lane *tcp)
{
	uint8_t bytes[SMD_FRAME_SIZE + SMD_CONTROL_MAX];
	struct smd_frame frame = {.kind = SMD_FRAME_REFUSE};

	frame.length = (uint32_t)smd_text_encode(REFUSED_WORKER, bytes + SMD_FRAME_SIZE);
	smd_frame_encode(&frame, bytes);
	(void)!send(tcp->fd, bytes, SMD_FRAME_SIZE + frame.length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/*
 * The first byte of the end that connects says whether it speaks TLS. 0: it does. What has come of
 * another language is read, because the kernel drops an answer when it is not.
 */
static int tls_look(struct tcp_lane *tcp)
{
	uint8_t first = 0;
	ssize_t got = recv(tcp->fd, &first, 1, MSG_PEEK);

	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
		return 1;
	}
	if (got == 1 && (first == HANDSHAKE_RECORD || first == ALERT_RECORD)) {
		if (tls_begin(tcp, false)) {
			smd_tcp_ended(tcp, -ENOMEM, "TLS: out of memory");
		}
		return tcp->tls->ssl == NULL;
	}
	if (got == 1) {
		got = recv(tcp->fd, tcp->rx_ahead, sizeof(tcp->rx_ahead), 0);
		if (got > 0 && memcmp(tcp->rx_ahead, "SMD", got < 3 ? (size_t)got : 3) == 0) {
			tls_refuse_frame(tcp);
		}
		smd_tcp_ended(tcp, -EPROTO, REFUSED);
		return 1;
	}
	smd_tcp_ended(
		tcp, -ECONNRESET, got ? strerror(errno) : "the other end closed the connection");
	return 1;
}

static int tls_agreed(struct tcp_lane *tcp)
{
	SSL *ssl = tcp->tls->ssl;

	if (!SSL_session_reused(ssl)) { /* the secret was not used */
		smd_tcp_ended(tcp, -EPROTO, "TLS: the job's token must be used");
		return 1;
	}
	tcp->tls->staged =
		malloc(SMD_TLS_RECORD_MAX); /* not before: strangers come as far as here */
	if (!tcp->tls->staged) {
		smd_tcp_ended(tcp, -ENOMEM, "TLS: out of memory");
		return 1;
	}
	tcp->securing = false;
	smd_log(SMD_LOG_DEBUG, "tcp", "lane of %s: %s, %s", tcp->peer, SSL_get_version(ssl),
		SSL_get_cipher_name(ssl));
	if (!SSL_is_server(ssl)) {
		tcp->callbacks->on_open(tcp->owner);
		if (!tcp->closed) {
			smd_tcp_flush(tcp);
		}
	}
	return tcp->closed;
}

int smd_tcp_secure(struct tcp_lane *tcp)
{
	struct tcp_tls *tls = tcp->tls;
	int err;
	int ret;

	if (!tls->ssl && tls_look(tcp)) {
		return 1;
	}
	ERR_clear_error();
	ret = SSL_do_handshake(tls->ssl);
	if (ret == 1) {
		return tls_agreed(tcp);
	}
	if (SSL_want_write(tls->ssl) && !tcp->poll_only) {
		event_add(tcp->writable, NULL);
	}
	err = smd_tcp_tls_failed(tcp, ret);
	if (err != EAGAIN) {
		err = err ? err : ECONNRESET;
		smd_tcp_ended(tcp, -err, smd_tcp_tls_reason(tcp, err));
	}
	return 1;
}

/* An alert is the one thing that an end which speaks TLS understands. */
bool smd_tcp_refuse_tls(struct tcp_lane *tcp, const uint8_t *first)
{
	static const uint8_t protocol_version[] = {ALERT_RECORD, 3, 3, 0, 2, 2, 70};
	bool is_tls = !tcp->tls && first[0] == HANDSHAKE_RECORD && first[1] == 3;

	if (is_tls) {
		(void)!send(tcp->fd, protocol_version, sizeof(protocol_version),
			MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	return is_tls;
}

/* ---- the end ---- */

void smd_tcp_tls_move(
	struct tcp_lane *tcp, const uint8_t *payload, size_t length, const uint8_t *moved)
{
	struct tcp_tls *tls = tcp->tls;

	if (tls && tls->ssl && tls->pending >= payload && tls->pending < payload + length) {
		SSL_set_mode(tls->ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
		tls->pending = moved + (tls->pending - payload);
	}
}

void smd_tcp_tls_close(struct tcp_lane *tcp)
{
	struct tcp_tls *tls = tcp->tls;

	if (!tls) {
		return;
	}
	if (tls->ssl && !tcp->securing && !tls->err && !tls->pending) {
		(void)SSL_shutdown(tls->ssl); /* or the other end takes it for cut */
	}
	ERR_clear_error();
	SSL_free(tls->ssl);
	SSL_CTX_free(tls->context);
	tls->ssl = NULL;
	tls->context = NULL;
	OPENSSL_cleanse(&tls->key, sizeof(tls->key));
	if (tls->staged) {
		OPENSSL_clear_free(tls->staged, SMD_TLS_RECORD_MAX);
		tls->staged = NULL;
	}
}
