/*
 * A thread beside a loop's own, for the driver's calls that take long: a card takes a millisecond
 * and more for each step of a queue pair, in which the lanes that are at work would stand still.
 *
 * Jobs are run one after the other, in the order in which they are given, urgent ones before the
 * others.
 */
#ifndef SMD_TRANSPORT_RDMA_MAKER_H
#define SMD_TRANSPORT_RDMA_MAKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct event_base;
struct rdma_maker;

struct rdma_job {
	const char *what;                   /* it asks of the driver: "make a queue pair" */
	void (*run)(struct rdma_job *job);  /* on the maker's thread */
	void (*done)(struct rdma_job *job); /* afterwards, on the loop's */
	bool urgent;                        /* somebody waits for it who counts the seconds, or it makes room */
	_Atomic(uint64_t) taken_ns; /* when the maker has taken it up; 0: it waits for others */
	STAILQ_ENTRY(rdma_job) link;
};

/* 0 or -errno. */
int smd_rdma_maker_create(struct event_base *base, struct rdma_maker **out);
/* When it has no jobs. */
void smd_rdma_maker_destroy(struct rdma_maker *maker);

/* The job stays until its done(). */
void smd_rdma_maker_give(struct rdma_maker *maker, struct rdma_job *job);
/* When it has taken up the job that it is at; 0: none. Any thread. */
uint64_t smd_rdma_maker_busy_since(const struct rdma_maker *maker);
/* Waits for all that were given, and calls their done(). Where the driver has not come back from
 * one of them for so long, it says so in the log and returns: that one and those behind it are the
 * maker's still, with all that they use, for as long as the process lives. */
void smd_rdma_maker_finish(struct rdma_maker *maker, uint64_t patience_ns);

#endif
