/*
 * Whether what is written over a transport arrives, as a context or a device of NCCL's finds it
 * out. A fabric that drops all of it shows in nothing but silence: both ends of a lane have made
 * their halves, and wait for each other. What one lane has found out others are spared, as each
 * would wait as long.
 *
 * A *far end* is a server, or another rank's host.
 */
#ifndef SMD_LIBSUMMAND_FABRIC_H
#define SMD_LIBSUMMAND_FABRIC_H

#include <stdbool.h>

/* So many lanes, to a far end that has others over the fabric, or far ends are tried in vain. */
#define SMD_FABRIC_VAIN_LANES 8u
#define SMD_FABRIC_VAIN_ENDS  2u

struct smd_fabric {
	bool crosses;  /* something has */
	bool silent;   /* to all far ends */
	unsigned vain; /* far ends from which nothing came */
};

struct smd_far_end {
	bool silent;   /* no more lanes to it are tried over the fabric */
	bool counted;  /* among the fabric's */
	unsigned vain; /* lanes to it over which nothing came */
};

enum smd_fabric_news { SMD_FABRIC_NO_NEWS, SMD_FAR_END_SILENT, SMD_FABRIC_SILENT };

/* Nothing came over a lane to it. `used`: others to it are over the fabric, so it may be one of its
 * cards. What is silent from now on. */
enum smd_fabric_news smd_fabric_in_vain(
	struct smd_fabric *fabric, struct smd_far_end *end, bool used);

/* A lane to it works. */
void smd_fabric_crosses(struct smd_fabric *fabric, struct smd_far_end *end);

/* Whether a lane to it need not be tried. */
bool smd_fabric_is_silent(const struct smd_fabric *fabric, const struct smd_far_end *end);

/* It was lost, and is there again: it is tried, if the fabric is. */
void smd_far_end_returns(struct smd_far_end *end);

#endif
