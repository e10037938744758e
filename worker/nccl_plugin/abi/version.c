/* Asks the library that has loaded the plugin for its version. */
#include "worker/nccl_plugin/abi/version.h"

#include <dlfcn.h>
#include <string.h>

/* NCCL may be a part of another library (of PyTorch's, say), and be loaded for that one alone: so it is looked for where its
 * logger is, and not everywhere. */
int smd_nccl_version(nccl_logger *log)
{
	int (*get)(int *version) = NULL;
	int version = 0;
	void *library;
	void *symbol;
	Dl_info at;

	if (!log || !dladdr((void *)log, &at) || !at.dli_fname) {
		return 0;
	}
	library = dlopen(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	symbol = library ? dlsym(library, "ncclGetVersion") : NULL;
	memcpy(&get, &symbol, sizeof(get));
	if (!get || get(&version)) {
		version = 0;
	}
	if (library) {
		dlclose(library);
	}
	return version;
}
