/* What an agent reports of its host. */
#ifndef SMD_AGENT_WIRE_FACTS_H
#define SMD_AGENT_WIRE_FACTS_H

#include <jansson.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

#define SMD_FACTS_INTERFACES_MAX 256
#define SMD_FACTS_ADDRESSES_MAX  16 /* of an interface */
#define SMD_FACTS_BELOW_MAX      8
#define SMD_FACTS_GPUS_MAX       1024
#define SMD_FACTS_NAME_SIZE      64
#define SMD_FACTS_HOST_SIZE      256
#define SMD_FACTS_PATH_SIZE      512

/* An address of an interface with the network that it is in. */
struct smd_host_address {
	int is_v6;
	uint8_t bytes[16]; /* the first 4 of v4 */
	unsigned prefix;   /* bits of the network */
	char text[SMD_FACTS_NAME_SIZE]; /* "10.0.0.7" */
};

struct smd_host_interface {
	char name[SMD_FACTS_NAME_SIZE];
	int is_loopback;
	uint32_t speed_mbps; /* 0: not known */
	struct smd_host_address addresses[SMD_FACTS_ADDRESSES_MAX];
	size_t naddresses;
	char below[SMD_FACTS_BELOW_MAX]
		  [SMD_FACTS_NAME_SIZE]; /* interfaces that it goes by: a VLAN's, a bridge's */
	size_t nbelow;
};

struct smd_host_facts {
	char name[SMD_FACTS_HOST_SIZE];
	char folder[SMD_FACTS_PATH_SIZE]; /* the agent's own */
	char network[SMD_FACTS_NAME_SIZE]; /* agents that say the same share their interfaces */
	int cpus;
	uint64_t memory_bytes;
	uint64_t clock_ns; /* CLOCK_REALTIME when it reported */
	char **gpus;       /* as CUDA_VISIBLE_DEVICES has them */
	size_t ngpus;
	char **rdma; /* names of devices */
	size_t nrdma;
	struct smd_host_interface *interfaces;
	size_t ninterfaces;
};

/* NULL: out of memory. */
json_t *smd_host_facts_encode(const struct smd_host_facts *facts);

/* 0; -EPROTO or -ENOMEM with a text, and *out is empty then. */
int smd_host_facts_decode(const json_t *object, struct smd_host_facts *out, struct smd_error *error);

void smd_host_facts_clear(struct smd_host_facts *facts);

/* "10.0.0.7/24": an address with the network that it is in, or with all of its bits where there is
 * no prefix. 0 or -EINVAL. */
int smd_host_address_parse(const char *text, struct smd_host_address *out);

/* Whether the address is in the other's network, by the other's prefix. */
int smd_host_address_is_in(
	const struct smd_host_address *address, const struct smd_host_address *network);

#endif
