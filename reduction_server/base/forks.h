/*
 * What a forked child must not keep of its parent: descriptors that are the parent's alone, closed
 * in the child before fork() returns there. They are not shut down, so the parent goes on with
 * them.
 *
 * A child that kept a lane's socket would keep the lane open after its parent's death.
 */
#ifndef SMD_BASE_FORKS_H
#define SMD_BASE_FORKS_H

#include <sys/queue.h>

struct smd_fork_entry {
	int fd;
	LIST_ENTRY(smd_fork_entry) link;
};

/* From any thread: closes the descriptor in children that are forked from now on, until it is
 * forgotten. */
void smd_forks_close(struct smd_fork_entry *entry, int fd);
/* Before this process closes it. */
void smd_forks_forget(struct smd_fork_entry *entry);

/* How many forks lie between this process and the one that first called. What was made at another
 * number is another process's. */
unsigned smd_forks_count(void);

#endif
