/*
 * Does the faults of a plan: at operations, at the beginning, and while ranks agree on another
 * table.
 */
#ifndef SMD_TESTS_SIMULATION_FAULTS_H
#define SMD_TESTS_SIMULATION_FAULTS_H

/* Those of rank 0's operation of that number, or of AT_START or CONNECTED, begin. */
void faults_begin(int operation);

/* What has not begun by now, because ranks have not said what it was to follow, does not come. */
void faults_end_waiting(void);

/* How many have been done, or are just being. */
unsigned faults_count(void);

#endif
