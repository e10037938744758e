/* Asks the library that has loaded the plugin for its version. */
#include "worker/nccl_plugin/abi/version.h"

#include <dlfcn.h>
#include <string.h>

/* NCCL may be a part of another library (of PyTorch's, say), and be loaded for that one alone: so a function is looked for
 * where its logger is, and not everywhere. NULL: there is none of that name. The library stays: it calls us. */
static void *symbol_beside(nccl_logger *log, const char *name)
{
	void *library;
	void *symbol;
	Dl_info at;

	if (!log || !dladdr((void *)log, &at) || !at.dli_fname) {
		return NULL;
	}
	library = dlopen(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!library) {
		return NULL;
	}
	symbol = dlsym(library, name);
	dlclose(library);
	return symbol;
}

int smd_nccl_version(nccl_logger *log)
{
	void *symbol = symbol_beside(log, "ncclGetVersion");
	int (*get)(int *version) = NULL;
	int version = 0;

	memcpy(&get, &symbol, sizeof(get));
	return get && get(&version) == 0 ? version : 0;
}

/* MSCCL's functions are RCCL's alone. */
bool smd_nccl_is_rccl(nccl_logger *log)
{
	return symbol_beside(log, "mscclLoadAlgo") != NULL;
}
