/*
 * Which blocks of a payload are zeros, and need not cross (specs/design/wire.md, Blocks of zeros).
 *
 * A block is SMD_ZERO_BLOCK bytes of a payload, from its first byte on; the last one may be
 * shorter. A *map* has a bit for each, the lowest first: 1 where all bytes are 0. So -0.0 is no
 * zero, and what the other end fills in are the bits that were not sent, whatever the type.
 */
#ifndef SMD_WIRE_ZEROS_H
#define SMD_WIRE_ZEROS_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/wire/frame.h"

#define SMD_ZERO_BLOCK   4096u
#define SMD_ZERO_MAP_MAX (SMD_CHUNK_LIMIT / SMD_ZERO_BLOCK / 8) /* bytes */

static inline uint32_t smd_zero_map_bytes(uint32_t length)
{
	return (length + 8 * SMD_ZERO_BLOCK - 1) / (8 * SMD_ZERO_BLOCK);
}

/*
 * How many bytes may still be read in vain: of a lane, a share of what it sends. So a payload
 * whose blocks only begin with zeros costs no more than one without.
 */
struct smd_zero_search {
	int32_t credit;
};

/* Makes the payload's map. How many blocks are zeros, as far as they may be looked for. */
unsigned smd_zero_map_find(
	struct smd_zero_search *search, const void *payload, uint32_t length, uint8_t *map);

/* -EPROTO with a text when that is no map of such a payload, or of one without zeros. */
int smd_zero_map_check(
	const uint8_t *map, uint32_t bytes, uint32_t length, struct smd_error *error);

/* Where the blocks end that are what the one at `at` is: zeros, or not. */
uint32_t smd_zero_map_run(const uint8_t *map, uint32_t length, uint32_t at, bool *zeros);

#endif
