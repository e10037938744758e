/* Checkpoints: what is written is read, what was damaged is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/examples/digits/checkpoint.h"

static const struct digits_shape shape = {2, {DIGITS_PIXELS, 5, DIGITS_CLASSES}};
static char dir[] = "/tmp/digits-checkpoint-XXXXXX";
static struct digits_network network;

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir) || digits_network_create(&shape, &network)) {
		return -1;
	}
	digits_network_init(&network, 1);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	digits_network_free(&network);
	return digits_checkpoint_clear(dir, NULL) || rmdir(dir) ? -1 : 0;
}

static size_t read_bytes(const char *path, uint8_t *bytes, size_t size)
{
	FILE *file = fopen(path, "r");
	size_t n;

	assert_non_null(file);
	n = fread(bytes, 1, size, file);
	assert_int_equal(fclose(file), 0);
	return n;
}

static void write_bytes(const char *path, const uint8_t *bytes, size_t size)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void round_trip(void **state)
{
	struct digits_checkpoint checkpoint;
	char path[PATH_MAX];

	(void)state;
	assert_int_equal(digits_checkpoint_write(dir, &network, 300, 1, NULL), 0);
	assert_int_equal(digits_checkpoint_next(dir, -1, path, NULL), 1);
	assert_int_equal(digits_checkpoint_read(path, &checkpoint, NULL), 0);
	assert_int_equal(checkpoint.step, 300);
	assert_int_equal(checkpoint.is_final, 1);
	assert_int_equal(checkpoint.network.nparameters, network.nparameters);
	assert_true(digits_network_hash(&checkpoint.network) == digits_network_hash(&network));
	digits_checkpoint_free(&checkpoint);
	assert_int_equal(digits_checkpoint_clear(dir, NULL), 0);
}

static void checkpoints_come_in_the_order_of_steps(void **state)
{
	char path[PATH_MAX];
	char other[PATH_MAX];

	(void)state;
	assert_int_equal(digits_checkpoint_next(dir, -1, path, NULL), 0);
	assert_int_equal(digits_checkpoint_write(dir, &network, 1000, 0, NULL), 0);
	assert_int_equal(digits_checkpoint_write(dir, &network, 200, 0, NULL), 0);
	snprintf(other, sizeof(other), "%s/step-000000000100.ckpt.part", dir);
	write_bytes(other, (const uint8_t *)"x", 1);
	assert_int_equal(digits_checkpoint_next(dir, -1, path, NULL), 1);
	assert_non_null(strstr(path, "/step-000000000200.ckpt"));
	assert_int_equal(digits_checkpoint_next(dir, 200, path, NULL), 1);
	assert_non_null(strstr(path, "/step-000000001000.ckpt"));
	assert_int_equal(digits_checkpoint_next(dir, 1000, path, NULL), 0);
	assert_int_equal(digits_checkpoint_clear(dir, NULL), 0);
	assert_int_equal(digits_checkpoint_next(dir, -1, path, NULL), 0);
	assert_int_equal(unlink(other), 0);
}

static void every_flipped_byte_and_every_cut_is_found(void **state)
{
	struct digits_checkpoint checkpoint;
	struct smd_error error;
	char path[PATH_MAX];
	uint8_t bytes[4096];
	size_t size;

	(void)state;
	assert_int_equal(digits_checkpoint_write(dir, &network, 7, 0, NULL), 0);
	assert_int_equal(digits_checkpoint_next(dir, -1, path, NULL), 1);
	size = read_bytes(path, bytes, sizeof(bytes));
	assert_int_equal(size, 64 + 4 * network.nparameters + 8);
	for (size_t i = 0; i < size; i++) {
		error = (struct smd_error){""};
		bytes[i] ^= 0x41;
		write_bytes(path, bytes, size);
		assert_true(digits_checkpoint_read(path, &checkpoint, &error) < 0);
		assert_int_equal(strncmp(error.text, path, strlen(path)), 0);
		bytes[i] ^= 0x41;
	}
	for (size_t cut = 0; cut < size; cut += 9) {
		write_bytes(path, bytes, cut);
		assert_true(digits_checkpoint_read(path, &checkpoint, NULL) < 0);
	}
	write_bytes(path, bytes, size);
	assert_int_equal(digits_checkpoint_read(path, &checkpoint, NULL), 0);
	digits_checkpoint_free(&checkpoint);
	assert_int_equal(digits_checkpoint_clear(dir, NULL), 0);
}

static void what_is_no_checkpoint(void **state)
{
	struct digits_checkpoint checkpoint;
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(digits_checkpoint_read(dir, &checkpoint, &error), -EPROTO);
	assert_int_equal(digits_checkpoint_read("/nonexistent", &checkpoint, NULL), -ENOENT);
	assert_true(digits_checkpoint_write("/nonexistent", &network, 1, 0, NULL) == -ENOENT);
}

static void a_directory_is_made_with_its_parents(void **state)
{
	char wanted[PATH_MAX];
	char path[PATH_MAX];
	struct stat status;

	(void)state;
	snprintf(wanted, sizeof(wanted), "%s/a/b/", dir);
	assert_int_equal(digits_checkpoint_open_dir(wanted, path, NULL), 0);
	assert_string_equal(path, wanted);
	assert_int_equal(stat(path, &status), 0);
	assert_true(S_ISDIR(status.st_mode));
	assert_int_equal(digits_checkpoint_open_dir(wanted, path, NULL), 0);
	assert_int_equal(digits_checkpoint_open_dir("", path, NULL), -EINVAL);
	assert_int_equal(rmdir(wanted), 0);
	snprintf(wanted, sizeof(wanted), "%s/a", dir);
	assert_int_equal(rmdir(wanted), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(checkpoints_come_in_the_order_of_steps),
		cmocka_unit_test(every_flipped_byte_and_every_cut_is_found),
		cmocka_unit_test(what_is_no_checkpoint),
		cmocka_unit_test(a_directory_is_made_with_its_parents),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
