/* Reads sizes, bandwidths and endpoints from text. */
#include "reduction_server/base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	uint64_t factor;
};

static int parse_leading_number(const char *text, const char **rest, uint64_t *out)
{
	unsigned long long value;
	char *end;

	if (!isdigit((unsigned char)text[0])) {
		return -EINVAL;
	}
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno) {
		return -EINVAL;
	}
	*rest = end;
	*out = value;
	return 0;
}

static int parse_with_unit(const char *text, const struct unit *units, size_t nunits, uint64_t *out)
{
	const char *rest;
	uint64_t value;

	if (parse_leading_number(text, &rest, &value)) {
		return -EINVAL;
	}
	for (size_t i = 0; i < nunits; i++) {
		if (strcasecmp(rest, units[i].name) == 0) {
			if (value > UINT64_MAX / units[i].factor) {
				return -EINVAL;
			}
			*out = value * units[i].factor;
			return 0;
		}
	}
	return -EINVAL;
}

int smd_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	const char *rest;
	uint64_t value;

	if (parse_leading_number(text, &rest, &value) || *rest || value < min || value > max) {
		return -EINVAL;
	}
	*out = value;
	return 0;
}

/* Thousandths, from up to three digits. */
static int parse_fraction(const char **rest, uint64_t *out)
{
	const char *digits;
	size_t length;
	uint64_t value = 0;

	if (**rest != '.') {
		*out = 0;
		return 0;
	}
	digits = *rest + 1;
	length = strspn(digits, "0123456789");
	if (length == 0 || length > 3) {
		return -EINVAL;
	}
	for (size_t i = 0; i < 3; i++) {
		value = value * 10 + (i < length ? (uint64_t)(digits[i] - '0') : 0);
	}
	*rest = digits + length;
	*out = value;
	return 0;
}

int smd_parse_milliseconds(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	const char *rest;
	uint64_t whole;
	uint64_t thousandths;
	uint64_t value;

	if (parse_leading_number(text, &rest, &whole) || whole > UINT64_MAX / 1000 - 1) {
		return -EINVAL;
	}
	if (strcasecmp(rest, "ms") == 0) {
		value = whole;
	} else if (parse_fraction(&rest, &thousandths) == 0 &&
		   (*rest == '\0' || strcasecmp(rest, "s") == 0)) {
		value = whole * 1000 + thousandths;
	} else {
		return -EINVAL;
	}
	if (value < min || value > max) {
		return -EINVAL;
	}
	*out = value;
	return 0;
}

int smd_parse_size(const char *text, uint64_t *out)
{
	static const struct unit units[] = {
		{"", 1},
		{"k", 1ull << 10},
		{"kib", 1ull << 10},
		{"m", 1ull << 20},
		{"mib", 1ull << 20},
		{"g", 1ull << 30},
		{"gib", 1ull << 30},
		{"t", 1ull << 40},
		{"tib", 1ull << 40},
	};

	return parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), out);
}

int smd_parse_share(const char *text, struct smd_share *out)
{
	const char *rest;
	uint64_t part;
	uint64_t whole;

	if (parse_leading_number(text, &rest, &part) || *rest != '/' || part < 1 ||
		part > SMD_SHARE_TERM_MAX ||
		smd_parse_number(rest + 1, 1, SMD_SHARE_TERM_MAX, &whole)) {
		return -EINVAL;
	}
	*out = (struct smd_share){(uint32_t)part, (uint32_t)whole};
	return 0;
}

int smd_parse_bandwidth(const char *text, uint64_t *out)
{
	static const struct unit units[] = {{"", 1}, {"mbps", 1}, {"gbps", 1000}};
	uint64_t value;

	if (parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), &value) || value == 0) {
		return -EINVAL;
	}
	*out = value;
	return 0;
}

int smd_parse_endpoint(const char *text, char *host, unsigned host_size, uint16_t *port)
{
	const char *colon = strrchr(text, ':');
	const char *start = text;
	size_t length;
	uint64_t number;

	if (!colon || smd_parse_number(colon + 1, 0, UINT16_MAX, &number)) {
		return -EINVAL;
	}
	length = (size_t)(colon - text);
	if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
		start = text + 1;
		length -= 2;
	} else if (memchr(text, ':', length)) {
		return -EINVAL; /* an IPv6 address needs its brackets */
	}
	if (length == 0 || length >= host_size) {
		return -EINVAL;
	}
	memcpy(host, start, length);
	host[length] = '\0';
	*port = (uint16_t)number;
	return 0;
}
