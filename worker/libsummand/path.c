/* The path of host memory: lanes read and write the caller's buffers, so there is nothing to do. */
#include "worker/libsummand/path.h"

const struct smd_path smd_path_host = {.name = "host", .host = true};
