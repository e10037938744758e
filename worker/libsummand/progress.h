/*
 * The progress engine: which thread runs a context's event loop.
 *
 * One thread at a time *owns* the engine. A caller that waits takes it, so that a blocking
 * operation is sent, awaited and received on the caller's own thread and costs no switch of
 * threads. A caller that tests again and again, as NCCL's thread does, owns it in each of these
 * calls. The progress thread owns it while operations are in flight that nobody waits for, nor has
 * tested for SMD_PROGRESS_TESTED_NS, a moment after the last caller left where all are small; and,
 * after a rest, while there are none, because lanes must be looked after. In poll mode there is no
 * such thread: the loop runs inside the calls. And there is a mode in which the thread is alone:
 * callers that post or test leave the engine to it, so that their threads are free for others'
 * bytes.
 *
 * Threads meet at two places only: callers post *tasks*, which the owner runs in order; and the
 * owner publishes what callers wait for (the fields marked "published" in a context, a
 * communicator, an operation) under `lock`. Everything else belongs to the owner; "on the owner"
 * in a comment means: called by the thread that owns the engine.
 */
#ifndef SMD_LIBSUMMAND_PROGRESS_H
#define SMD_LIBSUMMAND_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/transport/locality.h"
#include "reduction_server/transport/loop.h"

struct event;

#define SMD_PROGRESS_TESTED_NS 1000000u

/* Something for the owner to do. It belongs to whoever posted it. */
struct smd_task {
	void (*run)(struct smd_task *task);
	STAILQ_ENTRY(smd_task) link;
};
STAILQ_HEAD(smd_task_queue, smd_task);

/* What the owner must look at again and again, because nothing else says that it has changed. */
struct smd_watch {
	/* Does what is due; whether there is more to look for. What has come counts as an arrival.
	 */
	bool (*look)(struct smd_watch *watch);
};

/* Who runs the loop. */
enum smd_engine_mode {
	SMD_ENGINE_SHARED, /* callers, and a thread where these do not */
	SMD_ENGINE_POLLED, /* callers */
	SMD_ENGINE_ALONE,  /* the thread, and callers that wait */
};

struct smd_progress {
	struct event_base *base;
	struct smd_wakeup wakeup;
	struct event *alarm;               /* ends a sleep in the loop at somebody's deadline */
	uint64_t arrivals;                 /* results and ends of copies; counted by the owner */
	unsigned polls;                    /* of goals, over all waits; counted by the owner */
	_Atomic(struct smd_watch *) watch; /* the owner's; NULL: none yet */
	uint64_t looked_ns;                /* since when it has looked in vain */
	bool turned;                       /* the loop was, by its present owner */
	bool threaded;                     /* there is a progress thread, */
	bool alone;                        /* to which callers that do not wait leave the loop */
	const char *near; /* a server: it runs near the card by which that is reached; NULL: anywhere */
	struct smd_locality_ways ways;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t
		changed;     /* for callers: something was published, or nobody owns the engine */
	pthread_cond_t idle; /* for the thread: nobody else cares for what is in flight */
	struct smd_task_queue tasks;
	bool owned;             /* some thread owns the engine */
	unsigned waiting;       /* callers that wait; one of them may be the owner */
	unsigned in_flight;     /* operations; kept by their callers, */
	unsigned large;         /* and of them those that want the engine all the time */
	uint64_t left_ns;       /* when a caller left the engine last, */
	uint64_t unturned_ns;   /* and when one did first since the loop was turned; 0: none has */
	uint64_t waits;         /* of callers, that have ended */
	uint64_t usual_ns;      /* that those for small operations take, of late */
	uint64_t rest_ns;       /* of the thread, the next time: longer while callers come and go */
	uint64_t wakes_ns; /* when it will look by itself; 0: it does not rest, or was woken; the
			      most: it wants to be told when the last caller's wait ends */
	uint64_t look_ns; /* how long it rests while callers are back in time; 0: they are not */
	uint64_t absences;      /* of callers that have left something in flight, */
	uint64_t absences_seen; /* and when the thread last chose how long to rest */
	bool ending;

	/* A caller that tests. */
	_Atomic bool tests;          /* it did so again and again, and the thread leaves it to it */
	_Atomic uint64_t tested_ns;  /* when it last did, or began an operation */
	_Atomic uint64_t nothing_ns; /* when the loop last had nothing for it; 0: it had */
	bool threads;                /* the owner is the thread, */
	bool asked;                  /* and has been asked to leave the engine to it */
};

/* Makes the loop, and the thread unless it is polled, which runs near the card by which that server is
 * reached in one of these ways (NULL: anywhere). What these point to stays as long as the progress. 0 or
 * -errno. */
int smd_progress_create(struct smd_progress *progress, enum smd_engine_mode mode, const char *near,
	struct smd_locality_ways ways);
/* Ends the thread. From here on the loop is the caller's, to close what is on it. */
void smd_progress_end(struct smd_progress *progress);
void smd_progress_destroy(struct smd_progress *progress);

/* Has the task run soon, on any thread; it may have run already when this returns. Where the thread is alone, on that. */
void smd_progress_post(struct smd_progress *progress, struct smd_task *task);

/* Leaves the task for the present or next owner, and never runs it here: for threads that may not
 * do what tasks do. */
void smd_progress_defer(struct smd_progress *progress, struct smd_task *task);

/* Whether who begins to wait now waits alone, and for a short time as a rule. */
bool smd_progress_waits_are_short(struct smd_progress *progress);

/* What a caller waits for. */
struct smd_goal {
	bool (*done)(const void *arg); /* asked with the lock held, or on the owner */
	/*
	 * Takes what has come for it, on the owner, without asking the loop; false: only the loop
	 * knows. NULL: it takes long, so sleep at once.
	 */
	bool (*poll)(const void *arg);
};

/*
 * Posts the task (or none), then waits until the goal is done for `arg` and returns 0; or until the
 * deadline (0: never), and returns -ETIMEDOUT.
 */
int smd_progress_await(struct smd_progress *progress, struct smd_task *task,
	const struct smd_goal *goal, const void *arg, uint64_t deadline_ns);

/*
 * A caller tests: runs what is due, without sleeping, if nobody owns the engine. Takes no lock
 * where the loop had nothing a moment ago. Does nothing where the thread is alone.
 */
void smd_progress_poll(struct smd_progress *progress);

void smd_progress_lock(struct smd_progress *progress);
void smd_progress_unlock(struct smd_progress *progress);
/* Unlocks after something was published. */
void smd_progress_publish(struct smd_progress *progress);

#endif
