/* Makes files in a folder of /tmp, and removes all of it. */
#include "tests/unit/transport/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char tree_root[] = "/tmp/tree-XXXXXX";

void tree_write(const char *path, const char *text)
{
	char whole[PATH_MAX];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s%s", tree_root, path);
	for (char *c = whole + strlen(tree_root) + 1; *c; c++) {
		if (*c == '/') {
			*c = '\0';
			mkdir(whole, 0777);
			*c = '/';
		}
	}
	file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
	(void)status;
	(void)type;
	(void)where;
	return remove(path);
}

int tree_set_up(void **state)
{
	(void)state;
	strcpy(tree_root + strlen(tree_root) - 6, "XXXXXX");
	return mkdtemp(tree_root) ? 0 : -1;
}

int tree_tear_down(void **state)
{
	(void)state;
	return nftw(tree_root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
