/*
 * Blocks of zeros of a TCP lane: which ones are not sent of the frame that is leaving, and which
 * are filled in of the one that is coming in.
 *
 * A frame of elements that has some is sent behind a frame ZEROS with their map, and without them.
 * A lane has one such frame at a time in each direction; in the queue, others wait for it to leave.
 * What has been sent or received of a payload is counted with its zeros.
 *
 * A careful lane lets the kernel look first, at a few places of a payload, since a caller's buffer
 * may have a hole, and asks whether all of it is mapped. Where no place is zeros it lets some
 * payloads pass.
 */
#ifndef SMD_TRANSPORT_TCP_ZEROS_H
#define SMD_TRANSPORT_TCP_ZEROS_H

#include "reduction_server/transport/tcp/tcp.h"
#include "reduction_server/wire/zeros.h"

struct tcp_zeros {
	uint32_t room; /* bytes of each map */
	struct smd_zero_search search;
	bool careful;        /* payloads are in memory that may have holes */
	uint32_t pause;      /* so many payloads were not looked at, the last time; */
	uint32_t rest;       /* and so many more are not */
	struct smd_send *tx; /* whose map it is; NULL: nobody's */
	uint32_t tx_said;    /* bytes of ZEROS that have left */
	uint32_t rx_bytes;   /* of the map that has come for the next frame; 0: none has */
	bool rx_applies;     /* to the frame that is coming in */
	uint32_t rx_filled;  /* bytes, since that was last asked */
	uint8_t *rx_map;
	uint8_t tx_frame[]; /* ZEROS, as it is sent; rx_map lies behind it */
};

int smd_tcp_skip_zeros(struct smd_lane *lane, uint32_t largest, bool careful);

/* ---- sending ---- */

/* Looks for zeros in what is next to be gathered. False: it waits for the frame that has some. */
bool smd_tcp_zeros_look(struct tcp_lane *tcp, struct smd_send *send);
/* What of ZEROS has still to leave before the frame: its length. */
uint32_t smd_tcp_zeros_unsaid(
	const struct tcp_lane *tcp, const struct smd_send *send, const uint8_t **from);
/* So much of it has left. */
void smd_tcp_zeros_said(struct tcp_lane *tcp, uint32_t bytes);
/* Where what is to be sent, or left out, from `at` on ends. */
uint32_t smd_tcp_zeros_run_out(
	const struct tcp_lane *tcp, const struct smd_send *send, uint32_t at, bool *zeros);
/* Some bytes have left that belong to the frame. */
static inline bool smd_tcp_has_begun(const struct tcp_lane *tcp, const struct smd_send *send)
{
	return send->sent || (tcp->zeros && tcp->zeros->tx == send && tcp->zeros->tx_said);
}
/* The map, if it is the send's, is `heir`'s from now on, or nobody's. */
void smd_tcp_zeros_pass(struct tcp_lane *tcp, const struct smd_send *send, struct smd_send *heir);

/* ---- receiving ---- */

/* A map is coming: *payload is where it goes. -EPROTO with a text. */
int smd_tcp_zeros_begin(struct tcp_lane *tcp, const struct smd_frame *frame, void **payload,
	struct smd_error *error);
/* It is there. */
void smd_tcp_zeros_begun(struct tcp_lane *tcp, const struct smd_frame *frame);
/* Another frame begins, which the map is for, if one has come. -EPROTO with a text. */
int smd_tcp_zeros_apply(
	struct tcp_lane *tcp, const struct smd_frame *frame, struct smd_error *error);
/* Where what comes of the payload from `at` on ends, or is to be filled in. */
uint32_t smd_tcp_zeros_run_in(const struct tcp_lane *tcp, uint32_t at, bool *zeros);
/* Fills in what is next, if it is zeros. */
void smd_tcp_zeros_fill(struct tcp_lane *tcp);
/* Bytes that were, since that was last asked. */
uint32_t smd_tcp_zeros_filled(struct tcp_lane *tcp);

#endif
