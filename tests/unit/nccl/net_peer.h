/* The other end of a point-to-point connection, played by sockets; and a receiver that it speaks
 * to. */
#ifndef SMD_TESTS_NET_PEER_H
#define SMD_TESTS_NET_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "worker/nccl_plugin/net/comm.h"
#include "worker/nccl_plugin/net/net.h"
#include "worker/nccl_plugin/net/wire.h"

#define PATIENCE_NS 10000000000ull

enum { ROOM = 10000 };

/* All lines that the plugin has logged. */
extern char peer_said[4096];

/* The plugin's environment and log; before anything else. */
void peer_open_plugin(void);
void peer_assert_said(const char *text);

void peer_put_frame(int fd, struct smd_frame frame, const void *payload, size_t length);
struct smd_frame peer_take_frame(int fd, uint8_t payload[SMD_CONTROL_MAX]);
/* As "offender", over one of so many lanes. */
void peer_greet(int fd, const struct smd_net_handle *handle, unsigned lane, unsigned lanes);

struct receiver {
	int fd; /* of the peer's lane 0 */
	void *listen;
	struct smd_net_handle handle;
	void *comm;
	uint8_t data[ROOM + 100];
	void *request;
};

/* Listens; the peer has connected, and has said nothing. */
void receiver_open(struct receiver *receiver);
/* One more socket of the peer's. */
int receiver_connect(const struct receiver *receiver);
/* The peer has said GREET on all lanes. */
void receiver_accept(struct receiver *receiver);
/* Two receives posted at once, of ROOM and of 100 bytes, tags 5 and 6. */
void receiver_start(struct receiver *receiver);
/* All of that, with one lane. */
void receiver_post(struct receiver *receiver);
void receiver_close(struct receiver *receiver);

/* DATA of slot 0 and ordinal 0. */
struct smd_frame data_frame(unsigned entry, uint64_t count, uint64_t offset);

#endif
