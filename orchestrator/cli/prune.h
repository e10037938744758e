/*
 * How long jobs are kept: until SUMMAND_JOBS_MAX_AGE after their end, and the newest of them as
 * long as all take no more than SUMMAND_JOBS_MAX_SIZE. `prune` applies that, or what it is given.
 */
#ifndef SMD_CLI_PRUNE_H
#define SMD_CLI_PRUNE_H

/* Prunes a little before a new job, and says so. What keeps it from that is no error. */
void smd_prune_before_job(void);

#endif
