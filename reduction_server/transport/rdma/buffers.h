/*
 * The memory that lanes' messages are received and sent in: places that are cut from huge pages, so
 * that few entries of the card's table of addresses cover them. Each place is registered by itself: a
 * lane's key opens no other lane's.
 */
#ifndef SMD_TRANSPORT_RDMA_BUFFERS_H
#define SMD_TRANSPORT_RDMA_BUFFERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct rdma_slab;

struct rdma_buffers {
	LIST_HEAD(, rdma_slab) slabs;
	int node; /* of the device: memory comes from there; -1: from anywhere */
};

/* A place of SMD_RDMA_BUFFERS_BYTES, at the beginning of a page; NULL: out of memory. What is in it
 * is another lane's old messages, or zeros. */
uint8_t *smd_rdma_buffers_take(struct rdma_buffers *buffers);
void smd_rdma_buffers_put(struct rdma_buffers *buffers, uint8_t *place);
/* All places are back: frees what is kept for others. */
void smd_rdma_buffers_free(struct rdma_buffers *buffers);

#endif
