/* Encodes and decodes the heads of frames. */
#include "worker/agent/wire/frame.h"

#include <errno.h>

#include "reduction_server/base/bytes.h"

struct frame_rule {
	const char *name;
	unsigned from;
	uint32_t max;
};

static const struct frame_rule rules[] = {
#define X(name, number, from, max) [number] = {#name, from, max},
	SMD_AGENT_FRAMES(X)
#undef X
};

#define RULES (sizeof(rules) / sizeof(rules[0]))

void smd_agent_head_encode(const struct smd_agent_head *head, uint8_t out[SMD_AGENT_FRAME_HEAD])
{
	smd_put32(out, head->length);
	out[4] = (uint8_t)head->kind;
}

int smd_agent_head_decode(const uint8_t bytes[SMD_AGENT_FRAME_HEAD], enum smd_agent_end from,
	struct smd_agent_head *out, const char **reason)
{
	uint32_t length = smd_get32(bytes);
	unsigned kind = bytes[4];

	if (kind >= RULES || !rules[kind].name) {
		*reason = "a frame of an unknown kind came";
		return -EPROTO;
	}
	if (!(rules[kind].from & from)) {
		*reason = "a frame came that this end alone may send";
		return -EPROTO;
	}
	if (length > rules[kind].max) {
		*reason = "a frame came that is longer than its kind may be";
		return -EPROTO;
	}
	*out = (struct smd_agent_head){.kind = (enum smd_agent_kind)kind, .length = length};
	return 0;
}

const char *smd_agent_kind_name(enum smd_agent_kind kind)
{
	return (size_t)kind < RULES && rules[kind].name ? rules[kind].name : "?";
}
