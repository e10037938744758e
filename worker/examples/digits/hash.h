/* A 64-bit hash (FNV-1a), to tell whether two pieces of memory or two files hold the same bytes. */
#ifndef DIGITS_HASH_H
#define DIGITS_HASH_H

#include <stddef.h>
#include <stdint.h>

#define DIGITS_HASH_SEED 0xcbf29ce484222325u

/* Continues `hash` with more bytes; begin with DIGITS_HASH_SEED. */
static inline uint64_t digits_hash(uint64_t hash, const void *bytes, size_t count)
{
	const unsigned char *byte = bytes;

	for (size_t i = 0; i < count; i++) {
		hash = (hash ^ byte[i]) * 0x100000001b3u;
	}
	return hash;
}

#endif
