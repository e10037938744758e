/* Encodes and decodes invitations. */
#include "worker/agent/wire/invitation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEX_SIZE (2 * SMD_AGENT_KEY_SIZE + 1)

static json_t *encode_tcp(const struct smd_invitation *invitation, json_t *object)
{
	char hex[HEX_SIZE];
	json_t *addresses = json_array();

	for (size_t i = 0; i < SMD_AGENT_KEY_SIZE; i++) {
		snprintf(hex + 2 * i, 3, "%02x", invitation->key[i]);
	}
	for (size_t i = 0; i < invitation->naddresses; i++) {
		json_array_append_new(addresses, json_string(invitation->addresses[i]));
	}
	if (json_object_set_new(object, "key", json_string(hex)) ||
		json_object_set_new(object, "addresses", addresses)) {
		json_decref(object);
		object = NULL;
	}
	explicit_bzero(hex, sizeof(hex));
	return object;
}

char *smd_invitation_encode(const struct smd_invitation *invitation)
{
	json_t *object = json_pack("{s:s, s:i, s:s, s:s, s:i, s:s, s:i, s:i, s:b}", "summand",
		"invitation", "protocol", invitation->protocol, "version", invitation->version,
		"job", invitation->job, "host", invitation->host, "carrier",
		invitation->is_tcp ? "tcp" : "stream", "silence_s", (int)invitation->silence_s,
		"grace_s", (int)invitation->grace_s, "local", invitation->is_local);
	char *text, *line = NULL;

	if (object && invitation->is_tcp) {
		object = encode_tcp(invitation, object);
	}
	text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	json_decref(object);
	if (text) {
		line = malloc(strlen(text) + 2);
		if (line) {
			sprintf(line, "%s\n", text);
		}
		explicit_bzero(text, strlen(text));
	}
	free(text);
	return line;
}

static int hex_digit(char digit)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = digit ? strchr(digits, digit) : NULL;

	return at ? (int)(at - digits) : -1;
}

static int decode_key(const char *hex, unsigned char key[SMD_AGENT_KEY_SIZE])
{
	if (strlen(hex) != 2 * SMD_AGENT_KEY_SIZE) {
		return -EPROTO;
	}
	for (size_t i = 0; i < SMD_AGENT_KEY_SIZE; i++) {
		int high = hex_digit(hex[2 * i]);
		int low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0) {
			return -EPROTO;
		}
		key[i] = (unsigned char)(high << 4 | low);
	}
	return 0;
}

static int decode_tcp(const json_t *object, struct smd_invitation *out)
{
	const char *hex;
	json_t *addresses;

	if (json_unpack((json_t *)object, "{s:s, s:o}", "key", &hex, "addresses", &addresses) ||
		!json_is_array(addresses) || json_array_size(addresses) == 0 ||
		json_array_size(addresses) > SMD_INVITATION_ADDRESSES) {
		return -EPROTO;
	}
	for (size_t i = 0; i < json_array_size(addresses); i++) {
		const char *text = json_string_value(json_array_get(addresses, i));

		if (!text || strlen(text) >= SMD_INVITATION_ADDRESS_SIZE) {
			return -EPROTO;
		}
		snprintf(out->addresses[i], sizeof(out->addresses[i]), "%s", text);
		out->naddresses++;
	}
	return decode_key(hex, out->key);
}

static int decode_rest(const json_t *object, struct smd_invitation *out)
{
	const char *job, *carrier;
	int silence, grace;

	if (json_unpack((json_t *)object, "{s:s, s:i, s:s, s:i, s:i, s:b}", "job", &job, "host",
		    &out->host, "carrier", &carrier, "silence_s", &silence, "grace_s", &grace, "local",
		    &out->is_local) ||
		strlen(job) >= sizeof(out->job) || out->host < 0 || silence < 0 || grace < 0 ||
		silence > 1000000 || grace > SMD_INVITATION_GRACE_MAX) {
		return -EPROTO;
	}
	snprintf(out->job, sizeof(out->job), "%s", job);
	out->silence_s = (unsigned)silence;
	out->grace_s = (unsigned)grace;
	out->is_tcp = strcmp(carrier, "tcp") == 0;
	if (out->is_tcp) {
		return decode_tcp(object, out);
	}
	return strcmp(carrier, "stream") == 0 ? 0 : -EPROTO;
}

int smd_invitation_decode(
	const char *line, size_t length, struct smd_invitation *out, struct smd_error *error)
{
	json_t *object = json_loadb(line, length, 0, NULL);
	const char *what, *version;
	int ret = 0;

	*out = (struct smd_invitation){.protocol = 0};
	if (json_unpack(object, "{s:s, s:i, s:s}", "summand", &what, "protocol", &out->protocol,
		    "version", &version) ||
		strcmp(what, "invitation") != 0 || strlen(version) >= sizeof(out->version)) {
		ret = -EPROTO;
	} else {
		snprintf(out->version, sizeof(out->version), "%s", version);
		ret = out->protocol == SMD_AGENT_PROTOCOL ? decode_rest(object, out) : 0;
	}
	json_decref(object);
	if (ret) {
		explicit_bzero(out, sizeof(*out));
		return smd_error_set(error, -ret,
			"standard input: must begin with the invitation of a summand runner, in one "
			"line");
	}
	return 0;
}
