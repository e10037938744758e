/*
 * The step of a container of Pyxis, as a replica's command: srun cannot hand on a signal or a pipe,
 * so what the container writes to its notify pipe, and SIGTERM, go by way of this.
 */
#ifndef SMD_AGENT_STEP_H
#define SMD_AGENT_STEP_H

/* Runs srun's command line. Beside the prefix are the container's process id (.pid) and notify pipe
 * (.notify). Its value is the exit status. */
int smd_step_run(const char *prefix, char *const *argv);

#endif
