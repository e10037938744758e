/*
 * Values that people write on command lines and in variables, turned into numbers.
 *
 * Each function reads the whole text; anything left over, a sign, an overflow or an empty text is
 * -EINVAL, and *out is untouched.
 */
#ifndef SMD_BASE_PARSE_H
#define SMD_BASE_PARSE_H

#include <stdint.h>

/* A decimal number from min to max. */
int smd_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* Milliseconds, from min to max: "15" (seconds), "0.5s", "1.25", "500ms". */
int smd_parse_milliseconds(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* Bytes: "4096", "64K", "1M", "4G" (powers of 1024; "KiB", "MiB" and "GiB" are the same). */
int smd_parse_size(const char *text, uint64_t *out);

/* Megabits per second: "25gbps", "750mbps"; a plain number is Mbit/s. At least 1. */
int smd_parse_bandwidth(const char *text, uint64_t *out);

/* A part of a whole, "5/14": two numbers from 1 to SMD_SHARE_TERM_MAX, of which either may be the
 * larger one. */
#define SMD_SHARE_TERM_MAX 1000000
struct smd_share {
	uint32_t part;
	uint32_t whole;
};
int smd_parse_share(const char *text, struct smd_share *out);

/* "host:port" (the host may be a bracketed IPv6 address). Copies into host[host_size]. */
int smd_parse_endpoint(const char *text, char *host, unsigned host_size, uint16_t *port);

#endif
