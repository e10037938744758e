/* Encodes and decodes the handle and the payloads of a connection. */
#include "worker/nccl_plugin/net/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "reduction_server/wire/cursor.h"

#define HANDLE_MAGIC 0x32444d53u /* "SMD2" */

static struct smd_writer writer_over(uint8_t payload[SMD_CONTROL_MAX])
{
	return (struct smd_writer){.start = payload, .size = SMD_CONTROL_MAX};
}

static int finish(
	const struct smd_reader *reader, const char *kind, size_t length, struct smd_error *error)
{
	if (reader->failed || reader->left) {
		return smd_error_set(error, EPROTO,
			"%s: payload must be as specs/design/nccl-net.md says, got %zu bytes that "
			"are not",
			kind, length);
	}
	return 0;
}

static void put_key(struct smd_writer *writer, const struct smd_net_key *key)
{
	smd_writer_put(writer, key->words[0], 8);
	smd_writer_put(writer, key->words[1], 8);
}

static struct smd_net_key get_key(struct smd_reader *reader)
{
	struct smd_net_key key;

	key.words[0] = smd_reader_get(reader, 8);
	key.words[1] = smd_reader_get(reader, 8);
	return key;
}

/* ---- the handle ---- */

void smd_net_handle_encode(const struct smd_net_handle *handle, uint8_t bytes[SMD_NET_HANDLE_BYTES])
{
	struct smd_writer writer = {.start = bytes, .size = SMD_NET_HANDLE_BYTES};
	bool v4 = handle->address.ss_family == AF_INET;

	memset(bytes, 0, SMD_NET_HANDLE_BYTES);
	smd_writer_put(&writer, HANDLE_MAGIC, 4);
	put_key(&writer, &handle->nonce);
	smd_writer_put(&writer, handle->lanes, 2);
	smd_writer_put(&writer, v4 ? 4 : 6, 2);
	smd_writer_put(&writer, handle->ports[0], 2);
	smd_writer_put(&writer, handle->ports[1], 2);
	if (v4) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&handle->address;

		smd_writer_put_bytes(&writer, &in->sin_addr, sizeof(in->sin_addr));
		smd_writer_put_bytes(&writer, (uint8_t[12]){0}, 12);
	} else {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&handle->address;

		smd_writer_put_bytes(&writer, &in6->sin6_addr, sizeof(in6->sin6_addr));
	}
	for (unsigned i = 2; i < SMD_TRANSPORT_PORTS; i++) {
		smd_writer_put(&writer, handle->ports[i], 2);
	}
}

int smd_net_handle_decode(const uint8_t bytes[SMD_NET_HANDLE_BYTES], struct smd_net_handle *out,
	struct smd_error *error)
{
	struct smd_reader reader = {.at = bytes, .left = SMD_NET_HANDLE_BYTES};
	uint32_t magic = (uint32_t)smd_reader_get(&reader, 4);
	uint64_t family;

	memset(out, 0, sizeof(*out));
	out->nonce = get_key(&reader);
	out->lanes = (unsigned)smd_reader_get(&reader, 2);
	family = smd_reader_get(&reader, 2);
	out->ports[0] = (uint16_t)smd_reader_get(&reader, 2);
	out->ports[1] = (uint16_t)smd_reader_get(&reader, 2);
	if (magic != HANDLE_MAGIC || out->lanes == 0 || out->lanes > SMD_NET_LANES_MAX ||
		(family != 4 && family != 6)) {
		return smd_error_set(error, EINVAL,
			"handle: must be one of this plugin's listen: the other rank does not use "
			"this plugin, or another version of it");
	}
	if (family == 4) {
		struct sockaddr_in *in = (struct sockaddr_in *)&out->address;

		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, reader.at, sizeof(in->sin_addr));
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&out->address;

		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, reader.at, sizeof(in6->sin6_addr));
	}
	reader.at += 16;
	reader.left -= 16;
	for (unsigned i = 2; i < SMD_TRANSPORT_PORTS; i++) {
		out->ports[i] = (uint16_t)smd_reader_get(&reader, 2);
	}
	return 0;
}

/* ---- payloads ---- */

size_t smd_net_greet_encode(const struct smd_net_greet *greet, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = writer_over(payload);

	put_key(&writer, &greet->nonce);
	put_key(&writer, &greet->connection);
	smd_writer_put(&writer, greet->lane, 2);
	smd_writer_put(&writer, greet->lanes, 2);
	smd_writer_put_string(&writer, greet->name);
	return writer.used;
}

int smd_net_greet_decode(
	const uint8_t *payload, size_t length, struct smd_net_greet *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};

	out->nonce = get_key(&reader);
	out->connection = get_key(&reader);
	out->lane = (unsigned)smd_reader_get(&reader, 2);
	out->lanes = (unsigned)smd_reader_get(&reader, 2);
	smd_reader_get_string(&reader, out->name, sizeof(out->name));
	reader.failed = reader.failed || out->lanes == 0 || out->lanes > SMD_NET_LANES_MAX ||
			out->lane >= out->lanes;
	return finish(&reader, "GREET", length, error);
}

size_t smd_net_accept_encode(const char *name, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = writer_over(payload);

	smd_writer_put_string(&writer, name);
	return writer.used;
}

int smd_net_accept_decode(
	const uint8_t *payload, size_t length, char name[SMD_NET_NAME_MAX], struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};

	smd_reader_get_string(&reader, name, SMD_NET_NAME_MAX);
	return finish(&reader, "ACCEPT", length, error);
}

size_t smd_net_post_encode(const struct smd_net_post *post, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = writer_over(payload);

	for (unsigned i = 0; i < post->n; i++) {
		smd_writer_put(&writer, post->receives[i].size, 8);
		smd_writer_put(&writer, post->receives[i].tag, 4);
		smd_writer_put(&writer, post->receives[i].device, 1);
	}
	return writer.used;
}

int smd_net_post_decode(
	const uint8_t *payload, size_t length, struct smd_net_post *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};
	uint64_t device;

	for (out->n = 0; out->n < SMD_NET_RECVS_MAX && reader.left && !reader.failed; out->n++) {
		out->receives[out->n].size = smd_reader_get(&reader, 8);
		out->receives[out->n].tag = (uint32_t)smd_reader_get(&reader, 4);
		device = smd_reader_get(&reader, 1);
		out->receives[out->n].device = device == 1;
		reader.failed = reader.failed || device > 1 ||
				out->receives[out->n].size > SMD_NET_BYTES_MAX;
	}
	reader.failed = reader.failed || out->n == 0;
	return finish(&reader, "POST", length, error);
}
