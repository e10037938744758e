/*
 * Who is alive: the runner of each job holds the lock of one byte, the job's id, of one file in the
 * state directory. The kernel drops it with the last process of the runner, however that ends; so
 * it needs no process ids, which are used again and mean nothing in another container.
 */
#ifndef SMD_STORE_RUNNER_LOCK_H
#define SMD_STORE_RUNNER_LOCK_H

#include <stdint.h>

/* Takes the lock of the id. A descriptor that holds it, in forked children too; -EAGAIN when
 * somebody has it, or another -errno. */
int smd_runner_lock_take(const char *state_dir, int64_t id);

/* The file, to look for locks in; -errno. */
int smd_runner_lock_open(const char *state_dir);

/* 1: somebody holds the lock of the id; 0: nobody does; -errno. */
int smd_runner_lock_is_held(int fd, int64_t id);

/* Waits until nobody holds it. 0, or -EINTR after a signal. */
int smd_runner_lock_wait(int fd, int64_t id);

#endif
