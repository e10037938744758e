/* Says HELLO and PROOF, and checks the proof of the shard. */
#include "worker/libsummand/remote_greeting.h"

#include <errno.h>
#include <stdio.h>

#include "reduction_server/base/clock.h"

#define KINDS_KNOWN_NS SMD_SECOND_NS

/* Looked up once for lanes that are made together: with many cards that takes milliseconds. */
static uint16_t remote_kinds(const struct smd_remote *remote, const struct smd_transport_ops *ops)
{
	struct smd_found *found = &remote->owner->found[remote->transport];
	uint64_t now_ns = smd_clock_ns();

	if (!ops->kinds) {
		return 0;
	}
	if (found->kinds_ns == 0 || now_ns - found->kinds_ns > KINDS_KNOWN_NS) {
		found->kinds = ops->kinds();
		found->kinds_ns = now_ns;
	}
	return found->kinds;
}

/* What the lane is to carry. */
static uint16_t remote_asks(const struct smd_remote *remote)
{
	const struct smd_transport_ops *ops = remote->owner->config->transports[remote->transport];

	return remote->pairs ? ops->hello_flag | remote_kinds(remote, ops) : 0;
}

int smd_remote_say_hello(struct smd_remote *remote)
{
	const struct smd_config *config = remote->owner->config;
	struct smd_hello *hello = &remote->handshake.hello;
	struct smd_frame frame = {.kind = SMD_FRAME_HELLO};
	uint8_t payload[SMD_CONTROL_MAX];
	int ret;

	*hello = (struct smd_hello){
		.shard = (uint16_t)remote->shard,
		.flags = (uint16_t)((config->poll ? SMD_HELLO_CALLED : 0) |
				    (config->token[0] ? SMD_HELLO_TOKEN : 0) | remote_asks(remote) |
				    (config->zeros_skipped ? SMD_HELLO_ZEROS : 0)),
	};
	remote->challenged = false;
	ret = smd_nonce_draw(hello->nonce);
	if (ret) {
		return ret;
	}
	snprintf(hello->replica, sizeof(hello->replica), "%s", config->replica);
	snprintf(hello->job, sizeof(hello->job), "%s", config->job);
	return smd_lane_send_control(
		remote->lane, &frame, payload, smd_hello_encode(hello, payload));
}

int smd_remote_on_challenge(
	struct smd_remote *remote, const struct smd_frame *frame, struct smd_error *error)
{
	const char *token = remote->owner->config->token;
	struct smd_frame answer = {.kind = SMD_FRAME_PROOF};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_proof proof;
	int ret;

	if (remote->challenged) {
		return smd_error_set(error, EPROTO, "CHALLENGE: must come once");
	}
	ret = smd_challenge_decode(
		remote->rx_control, frame->length, &remote->handshake.challenge, error);
	if (ret) {
		return ret;
	}
	if (!token[0]) {
		remote->refused = true;
		return smd_error_set(error, EACCES,
			"it asks for the job's token: SUMMAND_TOKEN_FILE must name the file that "
			"holds it");
	}
	remote->challenged = true;
	ret = smd_handshake_prove_worker(&remote->handshake, token, &proof);
	if (ret == 0) {
		ret = smd_lane_send_control(
			remote->lane, &answer, payload, smd_proof_encode(&proof, payload));
	}
	return ret ? smd_error_set(error, -ret, "CHALLENGE cannot be answered: out of memory") : 0;
}

int smd_remote_disbelieve(bool proved, struct smd_error *error)
{
	if (proved) {
		return smd_error_set(error, EACCES,
			"it says that it has the job's token and has not: it is not this job's "
			"server");
	}
	return smd_error_set(error, EACCES,
		"it does not show that it has the job's token, which this process has from "
		"SUMMAND_TOKEN_FILE: give it the same by --token-file, or unset the variable if "
		"it may be anybody's server");
}

int smd_remote_check_welcome(
	const struct smd_remote *remote, const struct smd_welcome *welcome, struct smd_error *error)
{
	const char *token = remote->owner->config->token;
	struct smd_proof expected;

	if (!token[0]) {
		return welcome->proved ? smd_error_set(error, EPROTO,
						 "WELCOME: must have no proof without CHALLENGE")
				       : 0;
	}
	if (!remote->challenged || !welcome->proved) {
		return smd_remote_disbelieve(false, error);
	}
	if (smd_handshake_prove_server(&remote->handshake, welcome, token, &expected)) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	return smd_proof_equals(&welcome->proof, &expected) ? 0
							    : smd_remote_disbelieve(true, error);
}
