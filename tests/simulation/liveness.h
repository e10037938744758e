/*
 * By when some rank must have got on.
 *
 * A rank that is in none of the product's calls pauses for a time that is known. While none does,
 * and nothing has gone wrong, some call must return within the time that the largest operation of
 * the plan takes. What goes wrong may delay that by the time in which it must be found out, and by
 * what the others need to agree and to do again what was lost.
 */
#ifndef SMD_TESTS_SIMULATION_LIVENESS_H
#define SMD_TESTS_SIMULATION_LIVENESS_H

#include <stdint.h>

#define PAUSE_MOST_NS 5000000000ull /* of a rank, between operations of the aftermath */

struct planned_fault;

/* Ranks begin. */
void liveness_begin(void);

/* A call of that rank has returned; it makes the next one so much later. */
void liveness_moved(int rank, uint64_t pause_ns);

/* A rank begins an operation. What that sends to a server that is stopped is taken, as if it lived:
 * silence counts from then on. */
void liveness_begins(int rank);

/* A rank begins to connect. */
void liveness_connects(void);

/* It happens now. */
void liveness_disturbed(const struct planned_fault *fault);

/* In how much time after the last fault all servers that are there are used again as they were. */
uint64_t liveness_mend_ns(void);

/* In words, how near to its bound the longest wait came. */
const char *liveness_tell(void);

#endif
