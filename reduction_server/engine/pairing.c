/* Exchanges offers with a worker, and waits for the lane that they make. */
#include "reduction_server/engine/pairing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/log_limit.h"

struct smd_pairing {
	struct smd_pairer *pairer;
	const struct smd_transport_ops *ops; /* of the lane that is made */
	struct smd_lane *carrier; /* NULL: the made lane has it; on no loop before the offer is said */
	struct smd_lane *made;    /* NULL: there is none */
	bool offered;
	bool repeated; /* no half of it could be made once before */
	struct smd_handshake handshake;
	uint8_t payload[SMD_CONTROL_MAX];
	LIST_ENTRY(smd_pairing) link;
};

/* ---- the end ---- */

static void pairing_free(struct smd_pairing *pairing)
{
	LIST_REMOVE(pairing, link);
	free(pairing);
}

static void pairing_close(struct smd_pairing *pairing)
{
	if (pairing->made) {
		smd_lane_close(pairing->made); /* and with it the carrier that it has */
	}
	if (pairing->carrier) {
		smd_lane_close(pairing->carrier);
	}
	pairing_free(pairing);
}

static void pairing_on_closed(void *owner, int err, const char *reason)
{
	struct smd_pairing *pairing = owner;
	const struct smd_hello *hello = &pairing->handshake.hello;

	/* A worker goes on over another transport, and says so. */
	smd_log_peer(err == -EPROTO || err == -EACCES ? SMD_LOG_WARN : SMD_LOG_INFO,
		pairing->pairer->name, hello->job, "no lane of %s over %s: %s", hello->replica,
		pairing->ops->name, reason);
	pairing_close(pairing);
}

static void pairer_pass(
	struct smd_pairer *pairer, struct smd_lane *lane, const struct smd_handshake *handshake)
{
	int ret = pairer->on_paired(pairer->owner, lane, handshake);

	if (ret) {
		smd_log_peer(SMD_LOG_ERROR, pairer->name, handshake->hello.job,
			"cannot take the lane of %s: %s", handshake->hello.replica, strerror(-ret));
		smd_lane_close(lane);
	}
}

/* ---- the worker's offer ---- */

static int pairing_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct smd_pairing *pairing = owner;

	*payload = pairing->payload;
	if (frame->kind != SMD_FRAME_PAIR || !pairing->offered) {
		return smd_error_set(error, EPROTO, "the answer to PAIR must be PAIR, got %s",
			smd_frame_kind_name(frame->kind));
	}
	return 0;
}

static const char *pairing_token(const struct smd_pairing *pairing)
{
	return smd_tokens_find(pairing->pairer->tokens, pairing->handshake.hello.job);
}

static int pairing_check(
	const struct smd_pairing *pairing, const struct smd_pair *pair, struct smd_error *error)
{
	struct smd_proof expected;
	const char *token;

	if (!pairing->pairer->tokens) {
		return 0;
	}
	token = pairing_token(pairing);
	if (!token || !pair->proved) {
		return smd_error_set(error, EACCES, "PAIR: must come with a proof");
	}
	if (smd_handshake_prove_offer(
		    &pairing->handshake, false, &pair->offer, token, &expected)) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	return smd_proof_equals(&pair->proof, &expected)
		       ? 0
		       : smd_error_set(error, EACCES, "PAIR: its proof is wrong");
}

static int pairing_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct smd_pairing *pairing = owner;
	struct smd_pair pair;
	int ret = smd_pair_decode(pairing->payload, frame->length, &pair, error);

	(void)payload;
	if (ret == 0) {
		ret = pairing_check(pairing, &pair, error);
	}
	if (ret == 0) {
		ret = pairing->ops->join(
			pairing->made, pairing->carrier, &pair.offer, error);
	}
	if (ret == 0) {
		pairing->carrier = NULL;
	}
	return ret;
}

static const struct smd_lane_callbacks carrier_callbacks = {
	.on_header = pairing_on_header,
	.on_frame = pairing_on_frame,
	.on_closed = pairing_on_closed,
};

/* ---- the server's offer ---- */

static int pairing_say_offer(struct smd_pairing *pairing, struct smd_pair *pair)
{
	struct smd_frame frame = {.kind = SMD_FRAME_PAIR};
	uint8_t payload[SMD_CONTROL_MAX];

	if (pairing->pairer->tokens) {
		const char *token = pairing_token(pairing);

		pair->proved = true;
		if (!token || smd_handshake_prove_offer(&pairing->handshake, true, &pair->offer,
				      token, &pair->proof)) {
			return -ENOMEM;
		}
	}
	return smd_lane_send_control(
		pairing->carrier, &frame, payload, smd_pair_encode(pair, payload));
}

/* The worker's lane is looked at from now on, to say something on it and hear the answer. */
static int pairing_attach(struct smd_pairing *pairing)
{
	return smd_lane_attach(
		pairing->carrier, pairing->pairer->base, &carrier_callbacks, pairing);
}

static struct smd_pairing *pairing_create(struct smd_pairer *pairer,
	const struct smd_transport_ops *ops, struct smd_lane *lane,
	const struct smd_handshake *handshake)
{
	struct smd_pairing *pairing = calloc(1, sizeof(*pairing));

	if (pairing) {
		pairing->pairer = pairer;
		pairing->ops = ops;
		pairing->handshake = *handshake;
		pairing->carrier = lane;
		LIST_INSERT_HEAD(&pairer->pairings, pairing, link);
	}
	return pairing;
}

/* The other end has about a second to read it. */
static void pairing_refuse(struct smd_pairing *pairing, const char *why)
{
	struct smd_frame frame = {.kind = SMD_FRAME_REFUSE};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_error text = {""};

	smd_error_set(&text, ENOTSUP, "workers are let in over %s only: %s",
		pairing->ops->name, why);
	smd_log_peer(SMD_LOG_WARN, pairing->pairer->name, pairing->handshake.hello.job,
		"refused %s: %s", pairing->handshake.hello.replica, text.text);
	(void)smd_lane_send_control(
		pairing->carrier, &frame, payload, smd_text_encode(text.text, payload));
	pairing->carrier->parts = true;
	pairing_close(pairing);
}

/* Something keeps the worker from such a lane: it goes on without, if it may. */
static void pairing_do_without(struct smd_pairing *pairing, const char *why)
{
	const struct smd_handshake handshake = pairing->handshake;
	struct smd_pairer *pairer = pairing->pairer;
	struct smd_lane *lane = pairing->carrier;

	if (!pairer->needed) {
		pairing_free(pairing);
		pairer_pass(pairer, lane, &handshake);
	} else if (pairing_attach(pairing)) {
		pairing_close(pairing);
	} else {
		pairing_refuse(pairing, why);
	}
}

static void pairing_cannot(struct smd_pairing *pairing, const char *why)
{
	const struct smd_hello *hello = &pairing->handshake.hello;

	smd_log_peer(SMD_LOG_INFO, pairing->pairer->name, hello->job, "no lane of %s over %s: %s",
		hello->replica, pairing->ops->name, why);
	pairing_do_without(pairing, why);
}

/* ---- the lane that is made ---- */

static void made_on_offered(void *owner, const struct smd_offer *own)
{
	struct smd_pairing *pairing = owner;
	struct smd_pair pair = {.offer = *own};

	pairing->offered = true;
	if (pairing_attach(pairing) || pairing_say_offer(pairing, &pair)) {
		pairing_close(pairing);
	}
}

static void made_on_open(void *owner)
{
	struct smd_pairing *pairing = owner;
	const struct smd_handshake handshake = pairing->handshake;
	struct smd_pairer *pairer = pairing->pairer;
	struct smd_lane *lane = pairing->made;

	pairing_free(pairing);
	pairer_pass(pairer, lane, &handshake);
}

static int made_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	(void)owner;
	(void)payload;
	return smd_error_set(error, EPROTO, "%s: must come after WELCOME",
		smd_frame_kind_name(frame->kind));
}

static void pairing_offer(struct smd_pairing *pairing);

/* Before there is an offer the worker has heard nothing: it is offered another one, where what is in the
 * way passes, and else served as it is. */
static void pairing_not_made(struct smd_pairing *pairing, int err, const char *reason)
{
	pairing->made = NULL;
	if (smd_transport_error_passes(err) && !pairing->repeated) {
		pairing->repeated = true;
		smd_log_peer(SMD_LOG_INFO, pairing->pairer->name, pairing->handshake.hello.job,
			"lane of %s: tries %s again: %s", pairing->handshake.hello.replica,
			pairing->ops->name, reason);
		pairing_offer(pairing);
	} else {
		pairing_cannot(pairing, reason);
	}
}

static void made_on_closed(void *owner, int err, const char *reason)
{
	struct smd_pairing *pairing = owner;

	if (pairing->offered) {
		pairing_on_closed(pairing, err, reason);
		return;
	}
	smd_lane_close(pairing->made);
	pairing_not_made(pairing, err, reason);
}

static const struct smd_lane_callbacks made_callbacks = {
	.on_offered = made_on_offered,
	.on_open = made_on_open,
	.on_header = made_on_header,
	.on_closed = made_on_closed,
};

static void pairing_offer(struct smd_pairing *pairing)
{
	const struct smd_pairer *pairer = pairing->pairer;
	struct smd_error error = {""};
	struct smd_offer none;
	int ret = pairing->ops->offer(pairer->base, pairing->carrier, pairer->shard, NULL,
		pairing->handshake.hello.flags & SMD_HELLO_KINDS, &made_callbacks, pairing,
		&pairing->made, &none, &error);

	if (ret) {
		pairing_not_made(pairing, ret, error.text);
	}
}

/* ---- lanes that come ---- */

/* What the worker asks for, of what there is; NULL: nothing. */
static const struct smd_transport_ops *pairer_find(
	const struct smd_pairer *pairer, const struct smd_hello *hello)
{
	for (unsigned i = 0; pairer->pairs[i]; i++) {
		if (hello->flags & pairer->pairs[i]->hello_flag) {
			return pairer->pairs[i];
		}
	}
	return NULL;
}

void smd_pairer_take(
	struct smd_pairer *pairer, struct smd_lane *lane, const struct smd_handshake *handshake)
{
	const struct smd_transport_ops *ops = pairer_find(pairer, &handshake->hello);
	struct smd_pairing *pairing;

	if (!pairer->pairs[0] || !lane->ops->set_owner || (!ops && !pairer->needed)) {
		pairer_pass(pairer, lane, handshake);
		return;
	}
	pairing = pairing_create(pairer, ops ? ops : pairer->pairs[0], lane, handshake);
	if (!pairing) {
		smd_lane_close(lane);
	} else if (!ops) {
		pairing_do_without(pairing, "this one has not asked for it");
	} else {
		pairing_offer(pairing);
	}
}

void smd_pairer_close(struct smd_pairer *pairer)
{
	while (!LIST_EMPTY(&pairer->pairings)) {
		pairing_close(LIST_FIRST(&pairer->pairings));
	}
}
