/* Names collectives. */
#include "reduction_server/wire/collective.h"

#include <stdio.h>

const char *smd_collective_name(unsigned collective)
{
	static const char *const names[] = {
#define X(constant, number, name) [number] = name,
		SMD_COLLECTIVES(X)
#undef X
	};
	static _Thread_local char unknown[24];

	if (collective < SMD_COLLECTIVE_END) {
		return names[collective];
	}
	snprintf(unknown, sizeof(unknown), "collective %u", collective);
	return unknown;
}
