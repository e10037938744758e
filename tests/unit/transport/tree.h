/* A folder that passes for the root of a file system, with files like the kernel's. */
#ifndef SMD_TESTS_TREE_H
#define SMD_TESTS_TREE_H

/* Its path, from tree_set_up() on. */
extern char tree_root[];

int tree_set_up(void **state);
int tree_tear_down(void **state);

/* Makes the folders on the way, too. */
void tree_write(const char *path, const char *text);

#endif
