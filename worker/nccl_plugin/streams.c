/*
 * stderr and stdin as the archives of libevent and jansson reach them that become part of the
 * plugin. Archives that were made for programs expect these variables at a fixed distance, where a
 * library's own are: CMakeLists.txt renames them in copies of the archives.
 */
#include <stdio.h>

extern FILE *smd_streams_stderr;
extern FILE *smd_streams_stdin;

FILE *smd_streams_stderr;
FILE *smd_streams_stdin;

__attribute__((constructor)) static void point_at_the_real_ones(void)
{
	smd_streams_stderr = stderr;
	smd_streams_stdin = stdin;
}
