/*
 * Which operations ranks should do among themselves (exchange.h), by what rank 0 sees
 * (specs/design/exchange.md).
 *
 * It keeps times by the *kind* of operations: their size, a power of two of bytes, and whether one
 * was in flight alone or several together, whose times say nothing of each other. First they are by
 * servers, then, when ranks have met, of one kind on trial as exchanges. What wins is kept for all
 * operations of that size and smaller ones, until it is doubted, later each time: then servers do
 * that size again, and it is tried anew. What does not win is tried again later each time, too; nor
 * does a trial win that gets no operations any more.
 *
 * One thread uses it: the owner of the progress engine. Times are smd_clock_ns().
 */
#ifndef SMD_LIBSUMMAND_EXCHANGE_CHOICE_H
#define SMD_LIBSUMMAND_EXCHANGE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define SMD_EXCHANGE_SIZES 25u /* up to 16 MiB; operations of size s have at most 2^s bytes */
#define SMD_EXCHANGE_KINDS (2 * SMD_EXCHANGE_SIZES) /* each size alone, then each together */
#define SMD_EXCHANGE_TIMES 6u                       /* that a verdict is on, at most */

struct smd_exchange_times {
	double each[SMD_EXCHANGE_TIMES]; /* ns per byte, of operations that took long enough
					    together */
	unsigned count;
	unsigned skipped;
	uint64_t entry_ns; /* of the next one of these */
	uint64_t entry_bytes;
};

struct smd_exchange_choice {
	bool possible;    /* ranks have met, or may */
	bool always;      /* no trials: all that may be */
	bool seen;        /* some operation has ended */
	uint32_t settled; /* bytes: operations of so many are exchanges, by the last trial that was
			     won; */
	uint32_t limit;   /* are now: else a trial is on; */
	uint32_t wanted;  /* and shall be from the next table on */
	unsigned kind;    /* on trial, or to be: that of the last operation that says something, */
	unsigned wanted_kind; /* and what is wanted is about */
	unsigned missed;  /* operations since the last one that the trial could count, */
	uint64_t missed_ns; /* the first of them then */
	bool over;          /* a trial that was lost, until the table that ends it */
	bool won_together;  /* that trial was of such, which say now whether it is still faster: */
	uint64_t won_ns;    /* the last of them */
	unsigned largest;   /* of which exchanges come these days, which is what is doubted: */
	uint64_t largest_ns; /* the last of it */
	bool doubts;        /* whether it is still faster, */
	bool wants_doubt;   /* which is what is wanted */
	uint64_t doubt_ns;       /* that begins then, */
	uint64_t doubt_pause_ns; /* and so long after the next trial that is won */
	struct smd_exchange_times trial;
	struct smd_exchange_times servers[SMD_EXCHANGE_KINDS];
	uint64_t trial_ns;               /* when the table of it was in use */
	double lost[SMD_EXCHANGE_KINDS]; /* by the last trial of it: so many times the servers'; 0:
					    won */
	uint64_t came_ns[SMD_EXCHANGE_KINDS];  /* the last one of the kind */
	bool tried[SMD_EXCHANGE_KINDS];        /* before, with a verdict; */
	uint64_t next_ns[SMD_EXCHANGE_KINDS];  /* no trial of the kind before */
	uint64_t pause_ns[SMD_EXCHANGE_KINDS]; /* after the next one of it that is lost */
};

/* What an operation of so many bytes is; SMD_EXCHANGE_KINDS: never an exchange. */
unsigned smd_exchange_kind(uint64_t bytes, bool together);

/* As many as the largest of the kind may have. */
uint32_t smd_exchange_kind_bytes(unsigned kind);

static inline bool smd_exchange_kind_is_together(unsigned kind)
{
	return kind >= SMD_EXCHANGE_SIZES;
}

/* With what the table says now. */
void smd_exchange_choice_begin(
	struct smd_exchange_choice *choice, bool possible, bool always, uint32_t settled);

/* Ranks cannot do any more: those that are exchanges shall not be. */
void smd_exchange_choice_stop(struct smd_exchange_choice *choice);

/* One operation, or several together, of a kind, and all these bytes have taken so long; whether
 * that says something new. */
bool smd_exchange_choice_took(struct smd_exchange_choice *choice, unsigned kind, uint64_t bytes,
	bool exchanged, uint64_t ns, uint64_t now_ns);

static inline bool smd_exchange_choice_is_on_trial(const struct smd_exchange_choice *choice)
{
	return choice->limit != choice->settled;
}

/* So many operations have ended; those of which a trial learns something are then told of by
 * smd_exchange_choice_took(). Whether that says something new: enough of the others end the trial.
 */
bool smd_exchange_choice_missed(
	struct smd_exchange_choice *choice, unsigned operations, uint64_t now_ns);

/* What an operation of the kind on trial, or to be, takes by servers; 0: nothing is known. */
double smd_exchange_choice_served_ns(const struct smd_exchange_choice *choice);

/* A trial may begin soon; may begin: ranks should have met. */
bool smd_exchange_choice_is_near(const struct smd_exchange_choice *choice, uint64_t now_ns);
bool smd_exchange_choice_is_due(const struct smd_exchange_choice *choice, uint64_t now_ns);

/* Whether another limit should be used: choice->wanted. Ranks have met. */
bool smd_exchange_choice_want(struct smd_exchange_choice *choice, uint64_t now_ns);

/* The limit that was wanted is in use from now on. */
void smd_exchange_choice_applied(struct smd_exchange_choice *choice, uint64_t now_ns);

/* So many bytes are settled without a trial, from the next table on. */
void smd_exchange_choice_settle(struct smd_exchange_choice *choice, uint32_t bytes);

/* Something else has changed: times begin again. */
void smd_exchange_choice_forget(struct smd_exchange_choice *choice);

#endif
