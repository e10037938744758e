/* Asks the library that has loaded the plugin for its version. */
#include "worker/nccl_plugin/abi/version.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

/* The library that an address is in, or the program; NULL: it is in none. */
static const struct link_map *object_of(const void *address)
{
	void *object = NULL;
	Dl_info at;

	return dladdr1(address, &at, &object, RTLD_DL_LINKMAP) ? object : NULL;
}

/* NCCL may be a part of another library (of PyTorch's, say) or of the program, and be loaded for
 * that one alone: so a function is looked for where its logger is, and not everywhere. NULL: there
 * is none of that name. The library stays: it calls us. */
static void *symbol_beside(nccl_logger *log, const char *name)
{
	const struct link_map *object = log ? object_of((void *)log) : NULL;
	void *library;
	void *symbol;

	if (!object) {
		return NULL;
	}
	/* The program has no name there, as dlopen() knows it. */
	library = dlopen(*object->l_name ? object->l_name : NULL, RTLD_LAZY | RTLD_NOLOAD);
	if (!library) {
		return NULL;
	}
	symbol = dlsym(library, name); /* or that of a library which this one needs */
	dlclose(library);
	return symbol && object_of(symbol) == object ? symbol : NULL;
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
