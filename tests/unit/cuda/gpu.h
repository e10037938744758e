/*
 * The device as tests use it: memory, streams, and work in them that ends when the test says so.
 *
 * The same calls go to the fake driver and to a real one. Any of them that fails ends the program.
 */
#ifndef SMD_TESTS_GPU_H
#define SMD_TESTS_GPU_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens the driver and takes device 0; NULL: the machine's own driver. Also tells libsummand which.
 * Call before any thread is started. */
void gpu_open(const char *path);
/* With --device the machine's own, else the fake; false where there is no device: the program exits with 77. */
bool gpu_open_by(int argc, char **argv, const char *fake_driver);
bool gpu_is_fake(void);

/* Of the fake (fake_cuda.h); with a real one facts stay as they are, and counts are 0. */
void gpu_fail(const char *call, unsigned n, CUresult result);
void gpu_mend(void);
void gpu_hold_broken(bool hold);
void gpu_hold_pins(bool hold);
unsigned gpu_held(void);
unsigned gpu_live(void);
void gpu_set(int fact, int value); /* enum smd_fake_fact */
unsigned gpu_flushes(void);
unsigned gpu_streams(void);
unsigned long gpu_pinned(void);
unsigned gpu_callbacks(void);

/* Makes the device's context the calling thread's, as a program does; and not any more. The calls
 * below do so by themselves. */
void gpu_enter(int ordinal);
void gpu_leave(void);

void *gpu_alloc(size_t bytes);
void *gpu_alloc_on(int ordinal, size_t bytes);
void *gpu_alloc_managed(size_t bytes);
void gpu_free(void *pointer);
/* Of a pool, as cudaMallocAsync() gives it: there when the stream has come to it. */
void *gpu_alloc_in(CUstream stream, size_t bytes);
/* Addresses of at least so many bytes with several pieces of memory behind them, as PyTorch's
 * expandable segments. */
void *gpu_alloc_mapped(size_t *bytes);
void gpu_free_mapped(void *pointer, size_t bytes);
/* A dma-buf, to be closed, that stands for memory of gpu_alloc() from *offset on. */
int gpu_export(void *pointer, size_t bytes, uint64_t *offset);
void gpu_upload(void *to, const void *from, size_t bytes);
void gpu_download(void *to, const void *from, size_t bytes);

/* CU_STREAM_DEFAULT: in order with the legacy stream; or CU_STREAM_NON_BLOCKING. */
CUstream gpu_stream_create(unsigned flags);
void gpu_stream_destroy(CUstream stream);

/* Begins and ends the capture of a graph. The end returns how many works it has, in the fake; 0 of
 * a real driver, -1: something has spoilt it. */
void gpu_capture(CUstream stream, CUstreamCaptureMode mode);
int gpu_end_capture(CUstream stream);

/* A kernel: every 32-bit word becomes `value`. */
void gpu_fill(void *to, uint32_t value, size_t count, CUstream stream);

/* What is put into the stream from now on begins when the hold is let go. */
void *gpu_hold(CUstream stream);
void gpu_open_hold(void *hold);
/* The same, and returns when the stream has nothing more to do. */
void gpu_let_go(void *hold, CUstream stream);

#endif
