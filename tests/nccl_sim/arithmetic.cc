/* The arithmetic of NCCL's reductions, for all of its types. Integers are unsigned here: where a
 * sign matters NCCL says so in the reduction's argument. */
#include "arithmetic.h"

#include "device.h" /* NCCL's */

#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <type_traits>

/* The type in which elements of T are added: rounded once, after each. */
template <typename T> struct wide {
	typedef T type;
};
template <> struct wide<__half> {
	typedef float type;
};
template <> struct wide<__nv_bfloat16> {
	typedef float type;
};
template <> struct wide<__nv_fp8_e4m3> {
	typedef float type;
};
template <> struct wide<__nv_fp8_e5m2> {
	typedef float type;
};

template <typename T> static T argument_as(const smd_function &function)
{
	T value;

	memcpy((void *)&value, &function.argument, sizeof(value));
	return value;
}

/* Minimum or maximum. The argument of integers is what makes their order that of unsigned ones, and
 * of a minimum; of others whether it is the maximum. */
template <typename T> static bool precedes(const smd_function &function, T one, T other)
{
	typedef typename wide<T>::type W;

	if constexpr (std::is_integral<T>::value) {
		T mask = argument_as<T>(function);

		return T(one ^ mask) < T(other ^ mask);
	} else {
		return function.argument & 1 ? W(one) > W(other) : W(one) < W(other);
	}
}

template <typename T>
static void reduce_as(const smd_function &function, T *to, const T *from, size_t n)
{
	typedef typename wide<T>::type W;

	switch (function.reduction) {
	case ncclDevProd:
		for (size_t i = 0; i < n; i++) {
			to[i] = T(W(to[i]) * W(from[i]));
		}
		break;
	case ncclDevMinMax:
		for (size_t i = 0; i < n; i++) {
			to[i] = precedes(function, from[i], to[i]) ? from[i] : to[i];
		}
		break;
	default:
		for (size_t i = 0; i < n; i++) {
			to[i] = T(W(to[i]) + W(from[i]));
		}
	}
}

template <typename T> static void scale_as(const smd_function &function, T *to, size_t n)
{
	typedef typename wide<T>::type W;
	W factor = W(argument_as<T>(function));

	for (size_t i = 0; i < n; i++) {
		to[i] = T(W(to[i]) * factor);
	}
}

struct division {
	uint64_t divisor;
	bool is_signed;
};

/* From 2.24 on the argument's lowest bit says that the elements have a sign, before the type did. */
static division division_of(const smd_function &function)
{
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
	return {function.argument >> 1, (function.argument & 1) != 0};
#else
	return {function.argument, function.type == ncclInt8 || function.type == ncclInt32 ||
					   function.type == ncclInt64};
#endif
}

/* Only averages of integers are divided. */
template <typename T> static void divide_as(const smd_function &function, T *to, size_t n)
{
	if constexpr (std::is_integral<T>::value) {
		typedef typename std::make_signed<T>::type S;
		division by = division_of(function);

		for (size_t i = 0; i < n; i++) {
			to[i] = by.is_signed ? T((int64_t)(S)to[i] / (int64_t)by.divisor)
					     : T(to[i] / by.divisor);
		}
	}
}

/* Calls work with to as a pointer to its type. */
template <typename Work> static void by_type(int type, void *to, Work work)
{
	switch (type) {
	case ncclInt8:
	case ncclUint8:
		return work((uint8_t *)to);
	case ncclInt32:
	case ncclUint32:
		return work((uint32_t *)to);
	case ncclInt64:
	case ncclUint64:
		return work((uint64_t *)to);
	case ncclFloat16:
		return work((__half *)to);
	case ncclBfloat16:
		return work((__nv_bfloat16 *)to);
	case ncclFloat32:
		return work((float *)to);
	case ncclFloat64:
		return work((double *)to);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
	case ncclFloat8e4m3:
		return work((__nv_fp8_e4m3 *)to);
	case ncclFloat8e5m2:
		return work((__nv_fp8_e5m2 *)to);
#endif
	}
	abort(); /* a type that NCCL has not had yet */
}

void smd_arithmetic_reduce(const smd_function &function, void *to, const void *from, size_t n)
{
	by_type(function.type, to,
		[&](auto *typed) { reduce_as(function, typed, (decltype(typed))from, n); });
}

void smd_arithmetic_begin(const smd_function &function, void *to, size_t n)
{
	if (function.reduction == ncclDevPreMulSum) {
		by_type(function.type, to, [&](auto *typed) { scale_as(function, typed, n); });
	}
}

void smd_arithmetic_end(const smd_function &function, void *to, size_t n)
{
	if (function.reduction == ncclDevSumPostDiv) {
		by_type(function.type, to, [&](auto *typed) { divide_as(function, typed, n); });
	}
}
