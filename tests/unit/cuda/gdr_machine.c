/* Makes the machine, and hears what the plugin says there. */
#include "tests/unit/cuda/gdr_machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reduction_server/transport/rdma/verbs_check.h"

/* What ibv_reg_dmabuf_mr() would say. */
int machine_card_answer;

int smd_verbs_check_dmabuf(const char *device)
{
	CHECK(strcmp(device, "card0") == 0);
	return machine_card_answer;
}

/* ---- the log ---- */

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static char said[65536];
static unsigned warnings;

void machine_listen(enum nccl_log_level level, unsigned long subsystems, const char *file, int line,
	const char *format, ...)
{
	size_t used;
	va_list args;

	(void)subsystems;
	(void)file;
	(void)line;
	pthread_mutex_lock(&said_lock);
	warnings += level == NCCL_LOG_WARN;
	used = strlen(said);
	va_start(args, format);
	vsnprintf(said + used, sizeof(said) - used, format, args);
	va_end(args);
	pthread_mutex_unlock(&said_lock);
}

void machine_assert_said(const char *text)
{
	if (!strstr(said, text)) {
		fprintf(stderr, "\"%s\" is not in:\n%s\n", text, said);
		fail();
	}
}

unsigned machine_warnings(void)
{
	unsigned count;

	pthread_mutex_lock(&said_lock);
	count = warnings;
	pthread_mutex_unlock(&said_lock);
	return count;
}

/* ---- a machine with a card ---- */

static char sysfs[64];

static void make_file(const char *path, const char *text)
{
	char whole[256];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s/class/infiniband/card0/%s", sysfs, path);
	file = fopen(whole, "w");
	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void make_folders(void)
{
	static const char *const folders[] = {"class", "class/infiniband", "class/infiniband/card0",
		"class/infiniband/card0/ports", "class/infiniband/card0/ports/1",
		"class/infiniband/card0/ports/1/gid_attrs",
		"class/infiniband/card0/ports/1/gid_attrs/ndevs"};

	snprintf(sysfs, sizeof(sysfs), "/tmp/test_nccl_gdr.XXXXXX");
	CHECK(mkdtemp(sysfs));
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s/%s", sysfs, folders[i]);
		CHECK(mkdir(path, 0700) == 0);
	}
	make_file("ports/1/gid_attrs/ndevs/0", "lo\n");
	make_file("node_guid", "0000:0000:0000:0007\n");
}

static void remove_folders(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", sysfs);
	CHECK(system(command) == 0);
}

static struct pool pool;

static void set_environment(void)
{
	setenv("SUMMAND_SYSFS", sysfs, 1);
	setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
	setenv("NCCL_COLLNET_ENABLE", "1", 1);
	setenv("SUMMAND_NCCL_GDR", "flush", 1);
	setenv("SUMMAND_TRANSPORT", "rdma", 1);
	setenv("SUMMAND_CONNECT_TIMEOUT", "20", 1);
	setenv("SUMMAND_REDUCTION_SERVERS", pool.list, 1);
}

int machine_begin(void **state)
{
	void *ctx;

	(void)state;
	card_reset((struct card_plan){.refuse = 0});
	gpu_set(SMD_FAKE_DMA_BUF, 1);
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
	gpu_set(SMD_FAKE_FLUSH, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
	machine_card_answer = 0;
	set_environment();
	gpu_enter(0);
	return NET.init(&ctx, 0, NULL, machine_listen, NULL);
}

static unsigned live;

int machine_end(void **state)
{
	(void)state;
	gpu_leave();
	gpu_mend();
	return card_counts().registered == 0 && gpu_live() == live ? 0 : -1;
}

void machine_start(const char *driver)
{
	const struct smd_server_config config = {
		.shards = 2, .chunk_bytes = 16384, .memory_bytes = 16 << 20};

	make_folders();
	gpu_open(driver);
	live = gpu_live();
	pool_start(&pool, "rdma", 1, &config);
}

void machine_stop(void)
{
	pool_stop(&pool);
	remove_folders();
}
