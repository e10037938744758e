/* Bytes as texts of JSON: base64 with its usual letters and padding (RFC 4648). */
#ifndef SMD_SERVICE_BASE64_H
#define SMD_SERVICE_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* The caller frees it. NULL: out of memory. */
char *smd_base64_encode(const uint8_t *bytes, size_t count);

/* Fills `out` with at most `max` bytes. How many; -EINVAL when the text is no base64, -E2BIG when
 * they are more. */
long smd_base64_decode(const char *text, uint8_t *out, size_t max);

#endif
