/*
 * What the two ends of a point-to-point connection tell each other beside the frames' headers, as
 * bytes (specs/design/nccl-net.md): the handle that NCCL carries, and the payloads of GREET, ACCEPT
 * and POST.
 */
#ifndef SMD_NCCL_PLUGIN_NET_WIRE_H
#define SMD_NCCL_PLUGIN_NET_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "reduction_server/base/error.h"
#include "reduction_server/transport/transport.h"
#include "reduction_server/wire/message.h"
#include "worker/nccl_plugin/abi/nccl_abi.h"
#include "worker/nccl_plugin/net/net.h"

#define SMD_NET_LANES_MAX 16
#define SMD_NET_NAME_MAX  96

struct smd_net_key {
	uint64_t words[2];
};

struct smd_net_handle {
	struct smd_net_key nonce;            /* who knows it may connect */
	unsigned lanes;                      /* that a connection over TCP shall have */
	uint16_t ports[SMD_TRANSPORT_PORTS]; /* by port_slot of transports; 0: none */
	struct sockaddr_storage address;
};

struct smd_net_greet {
	struct smd_net_key nonce;      /* the handle's */
	struct smd_net_key connection; /* the same on all of its lanes */
	unsigned lane;                 /* which of them */
	unsigned lanes;
	char name[SMD_NET_NAME_MAX];
};

struct smd_net_post {
	unsigned n;
	struct {
		uint64_t size;
		uint32_t tag;
		bool device; /* only a network card can write there */
	} receives[SMD_NET_RECVS_MAX];
};

/*
 * At most SMD_NET_HANDLE_BYTES; the rest of a handle is free for whoever connects. IPv4, IPv6.
 */
#define SMD_NET_HANDLE_BYTES 64
void smd_net_handle_encode(
	const struct smd_net_handle *handle, uint8_t bytes[SMD_NET_HANDLE_BYTES]);
/* -EINVAL with a text when the bytes are no handle of this version. */
int smd_net_handle_decode(const uint8_t bytes[SMD_NET_HANDLE_BYTES], struct smd_net_handle *out,
	struct smd_error *error);

/* Each returns the length; -EPROTO with a text when a payload is malformed. */
size_t smd_net_greet_encode(const struct smd_net_greet *greet, uint8_t payload[SMD_CONTROL_MAX]);
int smd_net_greet_decode(
	const uint8_t *payload, size_t length, struct smd_net_greet *out, struct smd_error *error);
size_t smd_net_accept_encode(const char *name, uint8_t payload[SMD_CONTROL_MAX]);
int smd_net_accept_decode(const uint8_t *payload, size_t length, char name[SMD_NET_NAME_MAX],
	struct smd_error *error);
size_t smd_net_post_encode(const struct smd_net_post *post, uint8_t payload[SMD_CONTROL_MAX]);
int smd_net_post_decode(
	const uint8_t *payload, size_t length, struct smd_net_post *out, struct smd_error *error);

#endif
