/*
 * The part of a batch script that is the same for all jobs: slurm.bash as a text.
 */
#ifndef SMD_EXPORT_SLURM_SCRIPT_H
#define SMD_EXPORT_SLURM_SCRIPT_H

extern const char smd_slurm_script[];

#endif
