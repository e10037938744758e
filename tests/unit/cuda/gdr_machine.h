/*
 * A machine for the NCCL plugin whose network card reads and writes memory of its GPU: the card is
 * the one of card.h, in the place of rdma, and the driver is a fake one.
 */
#ifndef SMD_TESTS_GDR_MACHINE_H
#define SMD_TESTS_GDR_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/cuda/card.h"
#include "tests/unit/cuda/device_pool.h"
#include "tests/unit/cuda/fake_cuda.h"
#include "worker/nccl_plugin/abi/nccl_abi.h"

extern const struct nccl_net_v12 ncclNetPlugin_v12;
extern const struct nccl_collnet_v12 ncclCollNetPlugin_v12;

#define NET  ncclNetPlugin_v12
#define COLL ncclCollNetPlugin_v12

/* What ibv_reg_dmabuf_mr() would say; 0 at the beginning of each test. */
extern int machine_card_answer;

/* Before all tests: the driver, the card's files and a reduction server. */
void machine_start(const char *driver);
void machine_stop(void);

/* Each test begins with a machine that has all that it takes, and must leave nothing behind. */
int machine_begin(void **state);
int machine_end(void **state);
#define MACHINE_TEST(function) cmocka_unit_test_setup_teardown(function, machine_begin, machine_end)

/* The plugin's log, and how many of its lines are warnings. */
void machine_listen(enum nccl_log_level level, unsigned long subsystems, const char *file, int line,
	const char *format, ...);
void machine_assert_said(const char *text);
unsigned machine_warnings(void);

#endif
