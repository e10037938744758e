/* Counts threads and descriptors before and after. */
#include "tests/nccl_proxy/library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/tcp.h> /* glibc's has no counts of bytes */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/nccl_proxy/fleet.h"

#define END_POLLS 200 /* of 10 ms: the kernel shows a joined thread for a moment longer */
/* Over RDMA, of the watch that stays and of the device, which librdmacm keeps open. */
#define WATCH_DESCRIPTORS 3

static int threads_before;
static int descriptors_before;

static int entries(const char *path)
{
	DIR *folder = opendir(path);
	int n = 0;

	CHECK(folder);
	while (readdir(folder)) {
		n++;
	}
	closedir(folder);
	return n - 2; /* . and .. */
}

int process_threads(void)
{
	return entries("/proc/self/task");
}

int process_descriptors(void)
{
	return entries("/proc/self/fd") - 1; /* of the folder */
}

/*
 * NCCL has libibverbs open itself. Where nobody has, it goes with the library under test, and the
 * leak sanitizer finds what it never frees.
 */
static void hold_verbs(void)
{
	static void *verbs;

	if (!verbs) {
		verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	}
}

int process_busy_connections(uint64_t bytes)
{
	int most = (int)sysconf(_SC_OPEN_MAX);
	int n = 0;

	for (int fd = 0; fd < most && fd < 4096; fd++) {
		struct tcp_info info = {0};
		socklen_t length = sizeof(info);

		n += getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
		     info.tcpi_bytes_acked >= bytes;
	}
	return n;
}

int process_memory_watches(void)
{
	DIR *folder = opendir("/proc/self/task");
	const struct dirent *entry;
	int n = 0;

	CHECK(folder);
	while ((entry = readdir(folder)) != NULL) {
		char path[300];
		char name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (file) {
			n += fgets(name, sizeof(name), file) && strcmp(name, "memory-watch\n") == 0;
			fclose(file);
		}
	}
	closedir(folder);
	return n;
}

static void *nothing(void *arg)
{
	return arg;
}

/* The thread sanitizer adds a thread of its own to a forked process when the first one begins. */
static void begin_threads(void)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
	pthread_join(thread, NULL);
	usleep(10000);
}

void *library_open(void)
{
	const char *build = getenv("SUMMAND_BUILD");
	char path[1024];
	void *library;

	CHECK(build);
	snprintf(path, sizeof(path), "%s/lib/libnccl-net-summand.so", build);
	hold_verbs();
	begin_threads();
	threads_before = process_threads();
	descriptors_before = process_descriptors();
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fleet_fail(__FILE__, __LINE__, "%s", dlerror());
	}
	return library;
}

const void *library_table(void *library, const char *kind, int version)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_v%d", kind, version);
	return dlsym(library, name);
}

void library_close(void *library)
{
	int stays = process_memory_watches();

	CHECK(stays <= 1);
	for (int i = 0; i < END_POLLS && process_threads() > threads_before + stays; i++) {
		usleep(10000);
	}
	CHECK(process_threads() <= threads_before + stays);
	CHECK_EQUAL(dlclose(library), 0);
	CHECK_EQUAL(process_descriptors(), descriptors_before + stays * WATCH_DESCRIPTORS);
}
