/*
 * What the files of TLS share: what a lane has for it.
 */
#ifndef SMD_TRANSPORT_TCP_TLS_LANE_H
#define SMD_TRANSPORT_TCP_TLS_LANE_H

#include <openssl/ssl.h>

#include "reduction_server/transport/tcp/tcp.h"

#define SMD_TLS_RECORD_MAX (16u << 10)
/* A key is good for 2^24.5 full records of AES-GCM (RFC 8446, 5.5): 380 GB. */
#define SMD_TLS_KEY_RECORDS (1u << 24)

struct tcp_tls {
	SSL_CTX *context;
	SSL *ssl;                /* NULL: nothing has come from the end that connects */
	struct smd_lane_key key; /* of the end that connects */
	bool unknown;            /* the end that connects has named no key that is here */
	bool eof;                /* of the socket */
	bool over;               /* the other end has said that this is all */
	int err;                 /* why nothing can be read or written any more, */
	char reason[192];        /* in words; 0: it can */

	/* A record that the socket has not taken whole. What is written again must be the same. */
	const uint8_t *pending;
	size_t pending_length;
	uint32_t records; /* written with the key in use */
	uint32_t rekey;   /* a new key after so many */
	uint8_t *staged;  /* a record of small pieces; NULL: not agreed yet */
};

extern const struct tcp_stream smd_tcp_tls;

/* ---- the socket as OpenSSL sees it (tls_socket.c) ---- */

/* Of the lane: no signal comes of a write. NULL: out of memory. */
BIO *smd_tls_socket_create(struct tcp_lane *tcp);

/* ---- errors (tls_error.c) ---- */

/* Notes why a call of OpenSSL's has failed: an errno to go on with, EAGAIN when it has not. */
int smd_tcp_tls_failed(struct tcp_lane *tcp, int ret);

#endif
