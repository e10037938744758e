/*
 * TLS 1.3 over a TCP lane, by OpenSSL: both ends prove that they know the lane's secret, and agree
 * on keys that nobody can find later with that secret (psk_dhe_ke). There are no certificates.
 */
#ifndef SMD_TRANSPORT_TCP_TLS_H
#define SMD_TRANSPORT_TCP_TLS_H

#include "reduction_server/transport/tcp/tcp.h"

/* ---- contexts (tls_context.c) ---- */

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */

/* What lanes of a listener share, with its keys, or (NULL) what one that connects has. NULL with a
 * text when OpenSSL cannot do what is needed. */
struct ssl_ctx_st *smd_tls_context_create(
	const struct smd_lane_keys *keys, struct smd_error *error);
void smd_tls_context_free(struct ssl_ctx_st *context); /* or NULL */

/* ---- lanes ---- */

/* Makes it a lane over TLS, before its first byte. 0 or -ENOMEM. */
int smd_tcp_tls_create(struct tcp_lane *tcp, struct ssl_ctx_st *context);
/* Says that this is all, if there is TLS. The lane's memory, with the reason for an end, stays. */
void smd_tcp_tls_close(struct tcp_lane *tcp);
/* What of a payload is being sent is written again, when it must be, from where that has been moved
 * to. */
void smd_tcp_tls_move(
	struct tcp_lane *tcp, const uint8_t *payload, size_t length, const uint8_t *moved);
/* Whether more can be taken without a word from the socket. */
bool smd_tcp_tls_holds(const struct tcp_lane *tcp);
/* What the errno of a stream's last call means. */
const char *smd_tcp_tls_reason(const struct tcp_lane *tcp, int err);

/* Goes on to agree. 0: it is done. 1: it waits, or the lane has ended or was closed. */
int smd_tcp_secure(struct tcp_lane *tcp);
/* At an end without TLS: whether the lane's first bytes are TLS; says so to the other end. */
bool smd_tcp_refuse_tls(struct tcp_lane *tcp, const uint8_t *first);

/* Operations of the transport's. */
int smd_tcp_encrypt(struct smd_lane *lane, const struct smd_lane_key *key, struct smd_error *error);
int smd_tcp_listener_encrypt(
	struct smd_listener *listener, const struct smd_lane_keys *keys, struct smd_error *error);

#endif
