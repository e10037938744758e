/* Reads the environment's variables for RDMA. */
#include "reduction_server/transport/rdma/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/parse.h"

#define SETTING_BOUNCE       (64ull << 20)
#define SETTING_BOUNCE_LEAST (1ull << 20) /* a chunk of the default length each way */

/* A number of the range, or what it is without the variable. */
static int setting_read(
	const char *name, uint64_t least, uint64_t most, uint8_t *inout, struct smd_error *error)
{
	const char *text = getenv(name);
	uint64_t value = *inout;

	if (text && smd_parse_number(text, least, most, &value)) {
		return smd_error_set(error, EINVAL, "%s: must be %u to %u, got \"%.40s\"", name,
			(unsigned)least, (unsigned)most, text);
	}
	*inout = (uint8_t)value;
	return 0;
}

/* Half of the machine's memory, so that programs that give ever new buffers do not pin all of it.
 */
static int setting_read_cache(uint64_t *out, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_RDMA_CACHE");

	*out = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
	if (text && (smd_parse_size(text, out) || *out == 0)) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_RDMA_CACHE: must be a size like 64G, got \"%.40s\"", text);
	}
	return 0;
}

/* For 128 chunks of the default length, to send or to receive. */
static int setting_read_bounce(uint64_t *out, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_RDMA_BOUNCE");

	*out = SETTING_BOUNCE;
	if (text && smd_parse_size(text, out)) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_RDMA_BOUNCE: must be a size like 64M, got \"%.40s\"", text);
	}
	if (*out > 0 && *out < SETTING_BOUNCE_LEAST) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_RDMA_BOUNCE: must be 0 or at least %llu MiB, got \"%.40s\"",
			SETTING_BOUNCE_LEAST >> 20, text);
	}
	return 0;
}

static int setting_read_connect(bool *by_manager, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_RDMA_CONNECT");

	if (text && strcmp(text, "tcp") != 0 && strcmp(text, "cm") != 0) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_RDMA_CONNECT: must be tcp or cm, got \"%.40s\"", text);
	}
	*by_manager = text && strcmp(text, "cm") == 0;
	return 0;
}

static int setting_read_devices(char *out, size_t size, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_RDMA_DEVICE");

	if (text && strlen(text) >= size) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_RDMA_DEVICE: must have fewer than %zu bytes, got %zu", size,
			strlen(text));
	}
	snprintf(out, size, "%s", text ? text : "");
	return 0;
}

/* For a packet that is lost five times, and the default's 5 s at least; the connection manager
 * sends a lost message again after 4.6 to 6.1 s. */
static unsigned connect_patience_s(uint8_t timeout, bool by_manager)
{
	const uint64_t seconds = 5 * (4096ull << timeout) / SMD_SECOND_NS;
	const uint64_t least = by_manager ? 8 : 5;

	return (unsigned)(seconds > least ? seconds : least);
}

int smd_rdma_settings_read(struct smd_rdma_settings *out, struct smd_error *error)
{
	uint8_t relaxed = 1;
	uint8_t windows = 0;
	int ret;

	*out = (struct smd_rdma_settings){.by_manager = false};
	/* A flap of the link of some seconds is survived: 4.096 us * 2^18 = 1.07 s, 8 times. A
	 * machine that is gone is found out sooner, by silence. */
	out->patience = (struct smd_verbs_patience){.timeout = 18, .retries = 7};
	ret = setting_read("SUMMAND_RDMA_TIMEOUT", 1, 31, &out->patience.timeout, error);
	if (ret == 0) {
		ret = setting_read("SUMMAND_RDMA_RETRIES", 0, 7, &out->patience.retries, error);
	}
	if (ret == 0) {
		ret = setting_read("SUMMAND_RDMA_RELAXED_ORDERING", 0, 1, &relaxed, error);
	}
	if (ret == 0) {
		ret = setting_read("SUMMAND_RDMA_WINDOWS", 0, 1, &windows, error);
	}
	if (ret == 0) {
		ret = setting_read("SUMMAND_RDMA_SERVICE_LEVEL", 0, 15, &out->service_level, error);
	}
	if (ret == 0) {
		ret = setting_read(
			"SUMMAND_RDMA_TRAFFIC_CLASS", 0, 255, &out->traffic_class, error);
	}
	if (ret == 0) {
		ret = setting_read("SUMMAND_RDMA_PKEY", 0, 255, &out->pkey, error);
	}
	if (ret == 0) {
		ret = setting_read_connect(&out->by_manager, error);
	}
	if (ret == 0) {
		ret = setting_read_devices(out->devices, sizeof(out->devices), error);
	}
	if (ret == 0) {
		ret = setting_read_cache(&out->cache, error);
	}
	if (ret == 0) {
		ret = setting_read_bounce(&out->bounce, error);
	}
	out->relaxed = relaxed;
	out->windows = windows;
	out->connect_s = connect_patience_s(out->patience.timeout, out->by_manager);
	return ret;
}

bool smd_rdma_wants_windows(void)
{
	struct smd_rdma_settings settings;

	return smd_rdma_settings_read(&settings, NULL) == 0 && settings.windows;
}
