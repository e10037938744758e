/* Guard pages, and a last word before they end the program. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kernels/guarded.h"

static const char *about;

/* Only write(2) may be called here. */
static void touched(int number)
{
	static const char text[] = ": must touch nothing beside its buffers, got a memory fault\n";

	(void)number;
	if (write(STDOUT_FILENO, about, strlen(about)) < 0 ||
		write(STDOUT_FILENO, text, sizeof(text) - 1) < 0) {
		_exit(2);
	}
	_exit(1);
}

void guarded_tell(const char *what)
{
	about = what;
	signal(SIGSEGV, touched);
	signal(SIGBUS, touched);
}

struct guarded guarded_make(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t inside = (bytes + page - 1) / page * page;
	unsigned char *at =
		mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + page, inside, PROT_READ | PROT_WRITE) < 0) {
		perror("guarded memory");
		exit(2);
	}
	return (struct guarded){at + page, at + page + inside};
}

void guarded_free(struct guarded *memory)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	munmap(memory->low - page, (size_t)(memory->high - memory->low) + 2 * page);
	*memory = (struct guarded){0};
}
