/*
 * --flags-file=FILE: flags from a YAML or JSON file, as gcloud reads them.
 *
 * The file is an object of "--flag: value", or a list of such objects for flags that are given more
 * than once. A value is a scalar, null for a switch, a list for a flag that is a list, or an object
 * for a flag that is a dictionary.
 */
#ifndef SMD_FRONTEND_FLAGS_FILE_H
#define SMD_FRONTEND_FLAGS_FILE_H

struct smd_flags_file {
	char **argv; /* the command line with its files' flags in their place; may be reordered */
	int argc;
	char **words; /* the same words, to be freed */
};

/* Expands every --flags-file before a "--". -EINVAL: the errors have been printed. */
int smd_flags_file_expand(int argc, char **argv, struct smd_flags_file *out);
void smd_flags_file_free(struct smd_flags_file *file);

#endif
