/* Adds up the parts of a duration. */
#include "orchestrator/frontend/duration.h"

#include <errno.h>
#include <string.h>

#include "reduction_server/base/parse.h"

#define DURATION_MAX_S (10 * 365 * 86400ull)

int smd_duration_parse(const char *text, uint64_t *out)
{
	static const char units[] = "smhd";
	static const uint64_t seconds[] = {1, 60, 3600, 86400};
	uint64_t total = 0;

	do {
		char digits[16];
		size_t length = strspn(text, "0123456789");
		const char *unit = strchr(units, text[length] ? text[length] : 's');
		uint64_t number;

		if (length >= sizeof(digits) || !unit) {
			return -EINVAL;
		}
		memcpy(digits, text, length);
		digits[length] = '\0';
		if (smd_parse_number(digits, 0, DURATION_MAX_S, &number)) {
			return -EINVAL;
		}
		total += number * seconds[unit - units];
		text += length + (text[length] != '\0');
	} while (*text && total <= DURATION_MAX_S);
	if (total == 0 || total > DURATION_MAX_S) {
		return -EINVAL;
	}
	*out = total;
	return 0;
}
