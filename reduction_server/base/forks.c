/* Closes in a forked child what is its parent's alone, and counts forks. */
#include "reduction_server/base/forks.h"

#include <pthread.h>
#include <unistd.h>

static pthread_once_t watched = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, smd_fork_entry) entries = LIST_HEAD_INITIALIZER(entries);
static unsigned forks; /* written in a child that has one thread */

/* No other thread is in the middle of the list when the process is copied. */
static void forks_prepare(void)
{
	pthread_mutex_lock(&lock);
}

static void forks_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void forks_in_child(void)
{
	struct smd_fork_entry *entry;

	LIST_FOREACH (entry, &entries, link) {
		close(entry->fd);
	}
	LIST_INIT(&entries);
	forks++;
	pthread_mutex_unlock(&lock);
}

static void forks_watch(void)
{
	pthread_atfork(forks_prepare, forks_in_parent, forks_in_child);
}

void smd_forks_close(struct smd_fork_entry *entry, int fd)
{
	pthread_once(&watched, forks_watch);
	pthread_mutex_lock(&lock);
	entry->fd = fd;
	LIST_INSERT_HEAD(&entries, entry, link);
	pthread_mutex_unlock(&lock);
}

void smd_forks_forget(struct smd_fork_entry *entry)
{
	pthread_mutex_lock(&lock);
	LIST_REMOVE(entry, link);
	pthread_mutex_unlock(&lock);
}

unsigned smd_forks_count(void)
{
	pthread_once(&watched, forks_watch);
	return forks;
}
