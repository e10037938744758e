/*
 * A length of time as gcloud writes it on a command line: "90", "90s", "15m", "12h", "1d2h".
 */
#ifndef SMD_FRONTEND_DURATION_H
#define SMD_FRONTEND_DURATION_H

#include <stdint.h>

/* In seconds, above 0; -EINVAL: it is none, or longer than ten years. */
int smd_duration_parse(const char *text, uint64_t *out);

#endif
