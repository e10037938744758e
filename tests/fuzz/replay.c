/* Gives every file of the command line to a fuzz target, once. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "orchestrator/document/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct smd_error error = {""};
		struct smd_source source;

		if (smd_source_read(argv[i], &source, &error)) {
			fprintf(stderr, "%s\n", error.text);
			return EXIT_FAILURE;
		}
		LLVMFuzzerTestOneInput((const uint8_t *)source.text, source.length);
		smd_source_free(&source);
	}
	printf("%d files replayed\n", argc - 1);
	return EXIT_SUCCESS;
}
