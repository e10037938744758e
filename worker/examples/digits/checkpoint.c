/* Encodes, writes, finds, reads and checks the files that carry weights to the evaluator. */
#include "worker/examples/digits/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reduction_server/base/bytes.h"
#include "reduction_server/base/hash.h"

#define VERSION      1
#define HEADER_BYTES 64
#define HASH_BYTES   8
#define NAME_FORMAT  "step-%012llu.ckpt"

static const char magic[8] = {'D', 'I', 'G', 'I', 'T', 'S', 'C', 'K'};

static size_t encoded_size(const struct digits_network *network)
{
	return HEADER_BYTES + 4 * network->nparameters + HASH_BYTES;
}

static void encode(
	uint8_t *bytes, const struct digits_network *network, uint64_t step, int is_final)
{
	uint8_t *at = bytes + HEADER_BYTES;

	memset(bytes, 0, HEADER_BYTES);
	memcpy(bytes, magic, sizeof(magic));
	smd_put32(bytes + 8, VERSION);
	smd_put32(bytes + 12, is_final ? 1 : 0);
	smd_put64(bytes + 16, step);
	smd_put32(bytes + 24, (uint32_t)network->shape.nlayers);
	for (int i = 0; i <= network->shape.nlayers; i++) {
		smd_put32(bytes + 28 + 4 * i, (uint32_t)network->shape.widths[i]);
	}
	for (size_t i = 0; i < network->nparameters; i++, at += 4) {
		uint32_t bits;

		memcpy(&bits, &network->parameters[i], sizeof(bits));
		smd_put32(at, bits);
	}
	smd_put64(at, smd_hash(SMD_HASH_SEED, bytes, (size_t)(at - bytes)));
}

/* Reads the header; everything in it that decides a size is checked here. */
static int decode_header(const uint8_t *bytes, size_t size, struct digits_checkpoint *out,
	struct digits_shape *shape, struct smd_error *error)
{
	uint32_t nlayers;

	if (size < HEADER_BYTES + HASH_BYTES) {
		return smd_error_set(error, EPROTO, "must be at least %d bytes long, got %zu",
			HEADER_BYTES + HASH_BYTES, size);
	}
	if (memcmp(bytes, magic, sizeof(magic)) != 0) {
		return smd_error_set(error, EPROTO, "must begin with DIGITSCK, got something else");
	}
	if (smd_get32(bytes + 8) != VERSION) {
		return smd_error_set(
			error, EPROTO, "version must be %d, got %u", VERSION, smd_get32(bytes + 8));
	}
	if (smd_get32(bytes + 12) > 1) {
		return smd_error_set(error, EPROTO, "last-checkpoint flag must be 0 or 1, got %u",
			smd_get32(bytes + 12));
	}
	nlayers = smd_get32(bytes + 24);
	if (nlayers < 1 || nlayers > DIGITS_LAYERS_MAX) {
		return smd_error_set(error, EPROTO, "layers: must be 1 to %d, got %u",
			DIGITS_LAYERS_MAX, nlayers);
	}
	shape->nlayers = (int)nlayers;
	for (uint32_t i = 0; i <= nlayers; i++) {
		uint32_t width = smd_get32(bytes + 28 + 4 * i);

		shape->widths[i] = width > DIGITS_WIDTH_MAX ? DIGITS_WIDTH_MAX + 1 : (int)width;
	}
	out->step = smd_get64(bytes + 16);
	if (out->step > INT64_MAX) {
		return smd_error_set(error, EPROTO, "step must be below 2^63");
	}
	out->is_final = (int)smd_get32(bytes + 12);
	return digits_shape_check(shape, error);
}

static int decode(
	const uint8_t *bytes, size_t size, struct digits_checkpoint *out, struct smd_error *error)
{
	struct digits_checkpoint checkpoint = {0};
	struct digits_shape shape = {0};
	const uint8_t *at = bytes + HEADER_BYTES;
	int err;

	err = decode_header(bytes, size, &checkpoint, &shape, error);
	if (err) {
		return err;
	}
	err = digits_network_create(&shape, &checkpoint.network);
	if (err) {
		return smd_error_set(error, -err, "no memory for its network");
	}
	if (size != encoded_size(&checkpoint.network)) {
		err = smd_error_set(error, EPROTO, "must be %zu bytes long for its shape, got %zu",
			encoded_size(&checkpoint.network), size);
		goto free_checkpoint;
	}
	if (smd_get64(bytes + size - HASH_BYTES) !=
		smd_hash(SMD_HASH_SEED, bytes, size - HASH_BYTES)) {
		err = smd_error_set(error, EPROTO, "its hash does not match its bytes");
		goto free_checkpoint;
	}
	for (size_t i = 0; i < checkpoint.network.nparameters; i++, at += 4) {
		uint32_t bits = smd_get32(at);

		memcpy(&checkpoint.network.parameters[i], &bits, sizeof(bits));
	}
	*out = checkpoint;
	return 0;

free_checkpoint:
	digits_checkpoint_free(&checkpoint);
	return err;
}

int digits_checkpoint_open_dir(const char *dir, char path[PATH_MAX], struct smd_error *error)
{
	const char *scheme = "gs://";
	int is_bucket = strncmp(dir, scheme, strlen(scheme)) == 0;
	int length = snprintf(path, PATH_MAX, "%s%s", is_bucket ? "/gcs/" : "",
		is_bucket ? dir + strlen(scheme) : dir);

	if (length == 0 || length >= PATH_MAX) {
		return smd_error_set(error, EINVAL,
			"checkpoint directory: must be 1 to %d characters long, got %d",
			PATH_MAX - 1, length);
	}
	for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
		int err;

		if (slash) {
			*slash = '\0';
		}
		err = mkdir(path, 0777) ? errno : 0;
		if (err && err != EEXIST) {
			return smd_error_set(
				error, err, "%s: cannot be made: %s", path, strerror(err));
		}
		if (!slash) {
			return 0;
		}
		*slash = '/';
	}
}

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return -errno;
		}
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

/* On disk before the name appears: whoever sees the name sees all the bytes. */
static int write_file(const char *path, const uint8_t *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	int err;

	if (fd < 0) {
		return -errno;
	}
	err = write_all(fd, bytes, size);
	if (!err && fsync(fd)) {
		err = -errno;
	}
	if (close(fd) && !err) {
		err = -errno;
	}
	return err;
}

int digits_checkpoint_write(const char *dir, const struct digits_network *network, uint64_t step,
	int is_final, struct smd_error *error)
{
	size_t size = encoded_size(network);
	uint8_t *bytes = malloc(size);
	char path[PATH_MAX];
	char partial[PATH_MAX + 8];
	int length;
	int err;

	if (!bytes) {
		return smd_error_set(error, ENOMEM, "checkpoint: no memory for %zu bytes", size);
	}
	length = snprintf(path, sizeof(path), "%s/" NAME_FORMAT, dir, (unsigned long long)step);
	if (length >= (int)sizeof(path)) {
		err = smd_error_set(error, ENAMETOOLONG, "%s: too long for a directory", dir);
		goto free_bytes;
	}
	snprintf(partial, sizeof(partial), "%s.part", path);
	encode(bytes, network, step, is_final);
	err = write_file(partial, bytes, size);
	if (!err && rename(partial, path)) {
		err = -errno;
	}
	if (err) {
		smd_error_set(error, -err, "%s: cannot be written: %s", path, strerror(-err));
		unlink(partial);
	}
free_bytes:
	free(bytes);
	return err;
}

/* The step in a checkpoint's file name, or -1 for the name of anything else. */
static int64_t step_of_name(const char *name)
{
	unsigned long long step;
	char again[NAME_MAX + 1];

	if (sscanf(name, NAME_FORMAT, &step) != 1 || step > INT64_MAX) {
		return -1;
	}
	snprintf(again, sizeof(again), NAME_FORMAT, step);
	return strcmp(name, again) == 0 ? (int64_t)step : -1;
}

static int open_list(const char *dir, DIR **out, struct smd_error *error)
{
	*out = opendir(dir);
	if (!*out) {
		int err = errno;

		return smd_error_set(error, err, "%s: cannot be listed: %s", dir, strerror(err));
	}
	return 0;
}

int digits_checkpoint_clear(const char *dir, struct smd_error *error)
{
	struct dirent *entry;
	DIR *list;
	int err = open_list(dir, &list, error);

	while (!err && (entry = readdir(list))) {
		if (step_of_name(entry->d_name) < 0) {
			continue;
		}
		if (unlinkat(dirfd(list), entry->d_name, 0) && errno != ENOENT) {
			err = smd_error_set(error, errno, "%s/%s: cannot be removed: %s", dir,
				entry->d_name, strerror(errno));
		}
	}
	if (list) {
		closedir(list);
	}
	return err;
}

int digits_checkpoint_next(
	const char *dir, int64_t step, char path[PATH_MAX], struct smd_error *error)
{
	int64_t best = -1;
	struct dirent *entry;
	DIR *list;
	int length;
	int err = open_list(dir, &list, error);

	if (err) {
		return err;
	}
	while ((entry = readdir(list))) {
		int64_t found = step_of_name(entry->d_name);

		if (found > step && (best < 0 || found < best)) {
			best = found;
		}
	}
	closedir(list);
	if (best < 0) {
		return 0;
	}
	length = snprintf(path, PATH_MAX, "%s/" NAME_FORMAT, dir, (unsigned long long)best);
	return length < PATH_MAX ? 1 : -ENAMETOOLONG;
}

/* Reads up to `limit` bytes of a file; *size says how many there were. */
static int read_file(const char *path, uint8_t *bytes, size_t limit, size_t *size)
{
	FILE *file = fopen(path, "re");
	int err = 0;

	if (!file) {
		return -errno;
	}
	*size = fread(bytes, 1, limit, file);
	if (ferror(file)) {
		err = -EIO;
	}
	fclose(file);
	return err;
}

int digits_checkpoint_read(const char *path, struct digits_checkpoint *out, struct smd_error *error)
{
	struct smd_error reason = {""};
	struct stat status;
	uint8_t *bytes;
	size_t size = 0;
	size_t limit = HEADER_BYTES + HASH_BYTES +
		       4 * (size_t)DIGITS_LAYERS_MAX * (DIGITS_WIDTH_MAX + 1) * DIGITS_WIDTH_MAX;
	int err;

	if (stat(path, &status)) {
		err = errno;
		return smd_error_set(error, err, "%s: cannot be read: %s", path, strerror(err));
	}
	if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size > limit) {
		return smd_error_set(
			error, EPROTO, "%s: must be a file of at most %zu bytes", path, limit);
	}
	bytes = malloc((size_t)status.st_size + 1);
	if (!bytes) {
		return smd_error_set(error, ENOMEM, "%s: no memory to read it", path);
	}
	err = read_file(path, bytes, (size_t)status.st_size + 1, &size);
	if (err) {
		smd_error_set(error, -err, "%s: cannot be read: %s", path, strerror(-err));
		goto free_bytes;
	}
	err = decode(bytes, size, out, &reason);
	if (err) {
		smd_error_set(error, -err, "%s: %s", path, reason.text);
	}
free_bytes:
	free(bytes);
	return err;
}

void digits_checkpoint_free(struct digits_checkpoint *checkpoint)
{
	digits_network_free(&checkpoint->network);
}
