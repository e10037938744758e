/*
 * FNV-1a with 64 bits: tells whether two ends hold the same bytes. Nobody is kept from forging it.
 */
#ifndef SMD_BASE_HASH_H
#define SMD_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SMD_HASH_SEED 0xcbf29ce484222325ull

/* Continues `hash` with a value: a byte, as FNV-1a has it, or a word where speed counts. */
static inline uint64_t smd_hash_add(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x100000001b3ull;
}

/* Continues `hash` with more bytes; begin with SMD_HASH_SEED. */
static inline uint64_t smd_hash(uint64_t hash, const void *bytes, size_t count)
{
	const unsigned char *byte = bytes;

	for (size_t i = 0; i < count; i++) {
		hash = smd_hash_add(hash, byte[i]);
	}
	return hash;
}

#endif
