/*
 * The state directory: where a user's job store and new job directories are.
 *
 * It is $SUMMAND_STATE_DIR, else $XDG_STATE_HOME/summand, else ~/.local/state/summand, and belongs
 * to one user alone: it is made with mode 0700, and one that another user has or may write is
 * refused.
 */
#ifndef SMD_STORE_STATE_DIR_H
#define SMD_STORE_STATE_DIR_H

#include "reduction_server/base/error.h"

/* Finds it, and makes it if it is not there. The caller frees *path, which is absolute. 0, or
 * -errno with a text. */
int smd_state_dir_open(char **path, struct smd_error *error);

/* mkdir -p for one user alone. 0 or -errno. */
int smd_state_dir_make_folders(const char *path);

#endif
