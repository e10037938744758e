/* Gives memory to contexts and communicators, and takes it back without freeing it. */
#include "worker/libsummand/object.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A stale object that is used inside of the library is still found by the sanitizer. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define POISONS 1
#endif
#ifdef POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes)   ((void)(memory))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory))
#endif

/* Stands before the object. */
struct header {
	_Alignas(max_align_t) struct header *next; /* of those that are free */
	_Atomic uint32_t magic;
	size_t bytes;
};

static const uint32_t alive[SMD_OBJECT_KINDS] = {
	[SMD_OBJECT_CONTEXT] = 0x534d4358, [SMD_OBJECT_COMM] = 0x534d434d};
static const uint32_t ended[SMD_OBJECT_KINDS] = {
	[SMD_OBJECT_CONTEXT] = 0xdead4358, [SMD_OBJECT_COMM] = 0xdead434d};

static pthread_once_t watched = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Those that have ended, the first of them first. An address comes back only when so many others
 * of its kind have ended after it: 1 to 1.4 MB of them. */
static const unsigned kept[SMD_OBJECT_KINDS] = {
	[SMD_OBJECT_CONTEXT] = SMD_CONTEXTS_KEPT, [SMD_OBJECT_COMM] = SMD_COMMS_KEPT};
static struct {
	struct header *first;
	struct header **end; /* NULL: there was none yet */
	unsigned count;
} unused[SMD_OBJECT_KINDS];

/* Under the lock. NULL: none may be used again yet. */
static struct header *take_unused(enum smd_object_kind kind)
{
	struct header *header = unused[kind].first;

	if (unused[kind].count <= kept[kind]) {
		return NULL;
	}
	unused[kind].first = header->next;
	unused[kind].count--;
	return header;
}

static void keep_unused(enum smd_object_kind kind, struct header *header)
{
	header->next = NULL;
	if (unused[kind].first) {
		*unused[kind].end = header;
	} else {
		unused[kind].first = header;
	}
	unused[kind].end = &header->next;
	unused[kind].count++;
}

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void give_lock(void)
{
	pthread_mutex_unlock(&lock);
}

/* A forked child has no thread that would ever give the lock back. */
static void watch_forks(void)
{
	pthread_atfork(take_lock, give_lock, give_lock);
}

/* The library is unloaded, or the process ends. */
__attribute__((destructor)) static void free_unused(void)
{
	take_lock();
	for (int kind = 0; kind < SMD_OBJECT_KINDS; kind++) {
		while (unused[kind].first) {
			struct header *header = unused[kind].first;

			unused[kind].first = header->next;
			free(header);
		}
		unused[kind].count = 0;
	}
	give_lock();
}

void *smd_object_create(enum smd_object_kind kind, size_t bytes)
{
	struct header *header;

	pthread_once(&watched, watch_forks);
	take_lock();
	header = take_unused(kind);
	give_lock();
	if (header) {
		ASAN_UNPOISON_MEMORY_REGION(header + 1, bytes);
		memset(header + 1, 0, bytes);
	} else {
		header = calloc(1, sizeof(*header) + bytes);
	}
	if (!header) {
		return NULL;
	}
	header->bytes = bytes;
	atomic_store(&header->magic, alive[kind]);
	return header + 1;
}

enum smd_object_state smd_object_state(enum smd_object_kind kind, const void *object)
{
	const struct header *header;
	uint32_t magic;

	if (!object) {
		return SMD_OBJECT_NULL;
	}
	if ((uintptr_t)object % _Alignof(max_align_t)) {
		return SMD_OBJECT_OTHER;
	}
	header = (const struct header *)object - 1;
	magic = atomic_load_explicit(&header->magic, memory_order_relaxed);
	return magic == alive[kind]   ? SMD_OBJECT_LIVES
	       : magic == ended[kind] ? SMD_OBJECT_ENDED
				      : SMD_OBJECT_OTHER;
}

const char *smd_object_state_text(enum smd_object_state state)
{
	static const char *const texts[] = {
		[SMD_OBJECT_LIVES] = "one that lives",
		[SMD_OBJECT_ENDED] = "one that was destroyed",
		[SMD_OBJECT_NULL] = "NULL",
		[SMD_OBJECT_OTHER] = "something else",
	};

	return texts[state];
}

void smd_object_end(enum smd_object_kind kind, void *object)
{
	struct header *header = (struct header *)object - 1;

	atomic_store(&header->magic, ended[kind]);
	ASAN_POISON_MEMORY_REGION(object, header->bytes);
	take_lock();
	keep_unused(kind, header);
	give_lock();
}
