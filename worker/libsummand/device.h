/*
 * The seam between libsummand and accelerators: whose memory a pointer is, and copies of it.
 *
 * smd_device_ops() is NULL where there is no driver: all memory is then the host's, and nothing
 * below is asked. Calls give their reason as "cuMemcpyHtoDAsync: CUDA_ERROR_...".
 *
 * Work on a device ends some time after the call that began it. Whoever began it has a *notice*,
 * which the owner of the progress engine asks again and again whether that is so (staging.h).
 */
#ifndef SMD_LIBSUMMAND_DEVICE_H
#define SMD_LIBSUMMAND_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/base/error.h"
#include "reduction_server/transport/transport.h"

struct smd_request;

struct smd_device_location {
	int ordinal;   /* of the device; -1: host memory */
	void *context; /* NULL: the memory belongs to no context, so the device's primary one */
	uint64_t allocation; /* that it is part of: an id that no other ever has; 0: unknown */
};

/* An allocation as a network card can take it. */
struct smd_device_export {
	struct smd_extent memory;
	int fd;          /* a dma-buf, to be closed; it stands for the memory */
	uint64_t offset; /* from here on */
};

/* A stream, and how much of what was put into it is done. */
struct smd_device_stream {
	void *stream;
	uint32_t *word;  /* pinned memory: the last that is done, */
	uint32_t number; /* of so many */
};

struct smd_device {
	struct smd_device_location location;
	void *context;
	struct smd_device_stream reading; /* from the device */
	struct smd_device_stream writing;
	bool calls_back;                     /* its streams cannot write words (cuda_word.h) */
	bool flushes;                        /* what network cards write is not seen without it */
	struct smd_device_words *words;      /* that fences have */
	SLIST_HEAD(, smd_fence) fences;      /* all */
	SLIST_HEAD(, smd_fence) idle_fences; /* those that nobody uses */
	SLIST_ENTRY(smd_device) link;
};

/* Work that is under way: it is done when the word has come to `number`. */
struct smd_notice {
	void (*ended)(struct smd_notice *notice); /* called once, whether it succeeded or not */
	struct smd_device *device;
	const char *what; /* the call that began the work */
	uint32_t *word;
	uint32_t number;
	int status; /* the driver's */
	TAILQ_ENTRY(smd_notice) link;
};
TAILQ_HEAD(smd_notice_queue, smd_notice);

/* What is in a stream of the user's at some moment; its notice comes when that is done. */
struct smd_fence {
	struct smd_notice notice; /* first */
	struct smd_device *device;
	void *owner;                   /* the user's of the fence */
	struct smd_request *operation; /* what waits for it; NULL: it has ended before */
	bool watched;                  /* its end is asked for */
	SLIST_ENTRY(smd_fence) link;
	SLIST_ENTRY(smd_fence) idle_link;
};

struct smd_device_ops {
	/* Where the memory is. Memory that the host reaches too is the host's. */
	int (*locate)(
		const void *pointer, struct smd_device_location *out, struct smd_error *error);

	int (*open)(const struct smd_device_location *location, struct smd_device **out,
		struct smd_error *error);
	/* Waits for what is under way. */
	void (*close)(struct smd_device *device);

	/* Host memory that the device copies to and from while the caller does something else. */
	int (*pin)(struct smd_device *device, size_t bytes, void **out, struct smd_error *error);
	void (*unpin)(struct smd_device *device, void *memory);

	int (*fence_create)(
		struct smd_device *device, struct smd_fence **out, struct smd_error *error);
	/* Marks what is in the stream now (NULL: the legacy default stream). 0; -EINVAL: the
	 * stream is being captured into a graph, or cannot be used while another is, and stays as
	 * it was; -errno. */
	int (*fence_set)(struct smd_fence *fence, void *stream, struct smd_error *error);

	/* Copy between pinned memory and the device's. If -errno is returned, nothing is under way.
	 * On the owner. */
	int (*read)(struct smd_device *device, void *host, const void *pointer, size_t bytes,
		struct smd_notice *notice, struct smd_error *error);
	int (*write)(struct smd_device *device, void *pointer, const void *host, size_t bytes,
		struct smd_notice *notice, struct smd_error *error);
	/* The same from any memory, done on return. */
	int (*write_now)(struct smd_device *device, void *pointer, const void *host, size_t bytes,
		struct smd_error *error);

	/* The allocation that the memory is part of, for network cards. -errno, mostly -ENOTSUP,
	 * when they cannot have it. On the owner. */
	int (*export)(struct smd_device *device, const void *pointer, struct smd_device_export *out,
		struct smd_error *error);
	/* The id of the allocation that is there now; 0: none. */
	uint64_t (*identify)(struct smd_device *device, const void *pointer);
	/* What network cards have written into exported memory is seen by whatever the device does
	 * from now on. On the owner. */
	int (*flush)(struct smd_device *device, struct smd_error *error);

	/* For who brings dma-bufs of his own: whether network cards can have memory of all devices,
	 * and what they write there can be made seen. 0 or -errno; *flushes: of some it must be
	 * asked for. On any thread. */
	int (*check_cards)(bool *flushes, struct smd_error *error);
	/* What they have written is seen by whatever the device of the calling thread's context
	 * does from now on. */
	int (*flush_current)(struct smd_error *error);

	/* Whether the work is over that the notice is about: memory is read, and no call made.
	 * `thoroughly`: also whether it will never be, because the device has failed. On the owner.
	 */
	bool (*over)(struct smd_notice *notice, bool thoroughly);
	/* How it ended. */
	int (*result)(const struct smd_notice *notice, struct smd_error *error);
};

/* Looks for the driver at the first call. */
const struct smd_device_ops *smd_device_ops(void);

#endif
