/*
 * What a context needs to know to connect, from its options and the environment.
 */
#ifndef SMD_LIBSUMMAND_CONFIG_H
#define SMD_LIBSUMMAND_CONFIG_H

#include <stdbool.h>

#include "reduction_server/base/error.h"
#include "reduction_server/base/token.h"
#include "reduction_server/transport/transport.h"
#include "reduction_server/wire/message.h"
#include "worker/summand.h"

#define SMD_SERVERS_MAX       64
#define SMD_CONNECT_TIMEOUT_S 30 /* where nobody says */

/* Whether small operations may go from rank to rank: if that is found to be faster, never, or
 * always. */
enum smd_exchange_mode { SMD_EXCHANGE_AUTO, SMD_EXCHANGE_OFF, SMD_EXCHANGE_ON };

struct smd_config {
	/* What lanes go over: the first of these that there is. */
	const struct smd_transport_ops *transports[SMD_TRANSPORTS_MAX];
	unsigned ntransports;
	unsigned ninitial; /* of the servers; others were added while the process ran */
	unsigned nservers;
	/* "host:port", or of a server on several networks "host:port+host:port", in the order that
	 * all ranks share. */
	char *servers[SMD_SERVERS_MAX];
	char replica[SMD_STRING_MAX + 1];
	char job[SMD_STRING_MAX + 1];
	char token[SMD_TOKEN_MAX + 1]; /* empty: none */
	bool encrypt;                  /* lanes, */
	struct smd_lane_key key;       /* with this, of the job's token */
	unsigned connect_timeout_s;
	uint64_t undo_bytes;    /* of copies of inputs that network cards may write over; 0: none */
	uint64_t staging_bytes; /* of pinned memory, once there is device memory to copy */
	unsigned heartbeat_ms;  /* a server that says nothing for so long is lost */
	char *servers_file; /* names those that are added, see server_file.h; NULL: there is none */
	bool poll;
	bool near_card;      /* the progress thread runs near the card to the first server */
	bool spread;         /* callers have seats (seat.h) */
	unsigned wire_dtype; /* SUMMAND_WIRE */
	bool zeros_skipped;  /* blocks of zeros are not sent, SUMMAND_ZERO_BLOCKS; */
	bool zeros_asked;    /* the user has said so */
	bool zeros_told;     /* it was said that some lanes send them all the same */
	enum smd_exchange_mode exchange; /* SUMMAND_EXCHANGE */
	bool declared_rates; /* weights and chunks stay as servers have declared */
};

/* Whether that names a server: host:port, with a port, or several of them. */
bool smd_config_is_server(const struct smd_config *config, const char *addresses);

/* Options first, then the environment, then defaults. 0 or -errno with a text. */
int smd_config_read(
	const struct smd_context_options *options, struct smd_config *out, struct smd_error *error);
void smd_config_free(struct smd_config *config);

#endif
