/* Encodes and decodes what an agent reports of its host. */
#include "worker/agent/wire/facts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define V4_BITS 32
#define V6_BITS 128

int smd_host_address_parse(const char *text, struct smd_host_address *out)
{
	const char *slash = strchr(text, '/');
	size_t length = slash ? (size_t)(slash - text) : strlen(text);
	unsigned long bits;

	*out = (struct smd_host_address){0};
	if (length == 0 || length >= sizeof(out->text)) {
		return -EINVAL;
	}
	memcpy(out->text, text, length);
	out->text[length] = '\0';
	out->is_v6 = strchr(out->text, ':') != NULL;
	if (inet_pton(out->is_v6 ? AF_INET6 : AF_INET, out->text, out->bytes) != 1) {
		return -EINVAL;
	}
	bits = out->is_v6 ? V6_BITS : V4_BITS;
	if (slash) {
		char *end;

		if (slash[1] < '0' || slash[1] > '9') {
			return -EINVAL;
		}
		errno = 0;
		out->prefix = (unsigned)strtoul(slash + 1, &end, 10);
		return *end || errno || out->prefix > bits || end - slash > 4 ? -EINVAL : 0;
	}
	out->prefix = (unsigned)bits;
	return 0;
}

int smd_host_address_is_in(
	const struct smd_host_address *address, const struct smd_host_address *network)
{
	unsigned whole = network->prefix / 8;
	unsigned rest = network->prefix % 8;

	if (address->is_v6 != network->is_v6 ||
		memcmp(address->bytes, network->bytes, whole) != 0) {
		return 0;
	}
	return rest == 0 || (address->bytes[whole] >> (8 - rest)) ==
				    (network->bytes[whole] >> (8 - rest));
}

static json_t *encode_names(char *const *names, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < count; i++) {
		if (json_array_append_new(list, json_string(names[i]))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *encode_interface(const struct smd_host_interface *interface)
{
	json_t *addresses = json_array();
	json_t *below = json_array();

	for (size_t i = 0; below && i < interface->nbelow; i++) {
		if (json_array_append_new(below, json_string(interface->below[i]))) {
			json_decref(below);
			json_decref(addresses);
			return NULL;
		}
	}
	for (size_t i = 0; addresses && i < interface->naddresses; i++) {
		const struct smd_host_address *address = &interface->addresses[i];

		if (json_array_append_new(
			    addresses, json_sprintf("%s/%u", address->text, address->prefix))) {
			json_decref(below);
			json_decref(addresses);
			return NULL;
		}
	}
	return json_pack("{s:s, s:b, s:I, s:o, s:o}", "name", interface->name, "loopback",
		interface->is_loopback, "speed_mbps", (json_int_t)interface->speed_mbps,
		"addresses", addresses, "below", below);
}

json_t *smd_host_facts_encode(const struct smd_host_facts *facts)
{
	json_t *interfaces = json_array();

	for (size_t i = 0; interfaces && i < facts->ninterfaces; i++) {
		if (json_array_append_new(interfaces, encode_interface(&facts->interfaces[i]))) {
			json_decref(interfaces);
			return NULL;
		}
	}
	return json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:o, s:o, s:o}", "name", facts->name,
		"folder", facts->folder, "network", facts->network, "cpus", facts->cpus, "memory_bytes", (json_int_t)facts->memory_bytes,
		"clock_ns", (json_int_t)facts->clock_ns, "gpus",
		encode_names(facts->gpus, facts->ngpus), "rdma",
		encode_names(facts->rdma, facts->nrdma), "interfaces", interfaces);
}

static int bad(struct smd_error *error, const char *what)
{
	return smd_error_set(error, EPROTO, "the facts of the host: %s", what);
}

static int decode_names(const json_t *list, char ***out, size_t *count)
{
	size_t length = json_array_size(list);

	if (!json_is_array(list) || length > SMD_FACTS_GPUS_MAX) {
		return -EPROTO;
	}
	*out = calloc(length + 1, sizeof(**out));
	if (!*out) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < length; i++) {
		const char *name = json_string_value(json_array_get(list, i));

		if (!name || strlen(name) >= SMD_FACTS_NAME_SIZE || strpbrk(name, ", \n")) {
			return -EPROTO;
		}
		(*out)[i] = strdup(name);
		if (!(*out)[i]) {
			return -ENOMEM;
		}
		*count = i + 1;
	}
	return 0;
}

/* A name of an interface becomes a value of variables. */
static int is_interface_name(const char *name)
{
	return *name && strlen(name) < SMD_FACTS_NAME_SIZE && !strpbrk(name, " \t\n,=/");
}

static int decode_below(const json_t *names, struct smd_host_interface *out)
{
	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *name = json_string_value(json_array_get(names, i));

		if (i == SMD_FACTS_BELOW_MAX || !name || !is_interface_name(name)) {
			return -EPROTO;
		}
		snprintf(out->below[out->nbelow++], SMD_FACTS_NAME_SIZE, "%s", name);
	}
	return 0;
}

static int decode_interface(const json_t *object, struct smd_host_interface *out)
{
	const char *name;
	json_int_t speed;
	json_t *addresses, *below;

	if (json_unpack((json_t *)object, "{s:s, s:b, s:I, s:o, s:o}", "name", &name, "loopback",
		    &out->is_loopback, "speed_mbps", &speed, "addresses", &addresses, "below",
		    &below) ||
		decode_below(below, out) || !is_interface_name(name) || speed < 0 ||
		speed > UINT32_MAX || !json_is_array(addresses) ||
		json_array_size(addresses) > SMD_FACTS_ADDRESSES_MAX) {
		return -EPROTO;
	}
	snprintf(out->name, sizeof(out->name), "%s", name);
	out->speed_mbps = (uint32_t)speed;
	for (size_t i = 0; i < json_array_size(addresses); i++) {
		const char *text = json_string_value(json_array_get(addresses, i));

		if (!text || smd_host_address_parse(text, &out->addresses[i])) {
			return -EPROTO;
		}
		out->naddresses++;
	}
	return 0;
}

static int decode_interfaces(const json_t *list, struct smd_host_facts *out)
{
	size_t length = json_array_size(list);

	if (!json_is_array(list) || length > SMD_FACTS_INTERFACES_MAX) {
		return -EPROTO;
	}
	out->interfaces = calloc(length + 1, sizeof(*out->interfaces));
	if (!out->interfaces) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < length; i++) {
		if (decode_interface(json_array_get(list, i), &out->interfaces[i])) {
			return -EPROTO;
		}
		out->ninterfaces++;
	}
	return 0;
}

static int decode(const json_t *object, struct smd_host_facts *out, struct smd_error *error)
{
	const char *name, *folder, *network;
	json_int_t memory, clock;
	json_t *gpus, *rdma, *interfaces;
	int ret;

	if (json_unpack((json_t *)object, "{s:s, s:s, s:s, s:i, s:I, s:I, s:o, s:o, s:o}", "name",
		    &name, "folder", &folder, "network", &network, "cpus", &out->cpus, "memory_bytes", &memory, "clock_ns",
		    &clock, "gpus", &gpus, "rdma", &rdma, "interfaces", &interfaces)) {
		return bad(error, "not all of them are there");
	}
	if (out->cpus < 0 || memory < 0 || clock < 0 || strlen(name) >= sizeof(out->name) ||
		strlen(network) >= sizeof(out->network) || folder[0] != '/' || strlen(folder) >= sizeof(out->folder)) {
		return bad(error, "they must be within their bounds");
	}
	snprintf(out->name, sizeof(out->name), "%s", name);
	snprintf(out->folder, sizeof(out->folder), "%s", folder);
	snprintf(out->network, sizeof(out->network), "%s", network);
	out->memory_bytes = (uint64_t)memory;
	out->clock_ns = (uint64_t)clock;
	ret = decode_names(gpus, &out->gpus, &out->ngpus);
	ret = ret ? ret : decode_names(rdma, &out->rdma, &out->nrdma);
	if (ret) {
		return bad(error, "names of GPUs and RDMA devices must be such");
	}
	ret = decode_interfaces(interfaces, out);
	return ret ? bad(error, "interfaces must have a name and addresses") : 0;
}

int smd_host_facts_decode(const json_t *object, struct smd_host_facts *out, struct smd_error *error)
{
	int ret;

	*out = (struct smd_host_facts){.cpus = 0};
	ret = decode(object, out, error);
	if (ret) {
		smd_host_facts_clear(out);
	}
	return ret;
}

static void free_names(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(names[i]);
	}
	free(names);
}

void smd_host_facts_clear(struct smd_host_facts *facts)
{
	free_names(facts->gpus, facts->ngpus);
	free_names(facts->rdma, facts->nrdma);
	free(facts->interfaces);
	*facts = (struct smd_host_facts){.cpus = 0};
}
