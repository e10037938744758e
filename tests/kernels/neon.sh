#!/usr/bin/env bash
# The kernels compiled for AArch64 by a cross compiler, and checked in a program that emulates one.
#
#   neon.sh FLAG...    what the kernels are compiled with
set -euo pipefail

cc=aarch64-linux-gnu-gcc
for tool in "$cc" qemu-aarch64; do
	if ! command -v "$tool" >/dev/null; then
		echo "skipped: $tool is not there (tools/packages says what it comes with)"
		exit 77
	fi
done

folder=${SUMMAND_BUILD:?must name the build directory}/neon
kernels=reduction_server/kernels
flags=(-std=gnu11 -O2 -g -D_GNU_SOURCE -I. -Ireduction_server/base/include -Wall -Wextra -Wshadow -Wundef -Wvla -Wstrict-prototypes
	-Wmissing-prototypes -Wpointer-arith -Wcast-function-type -Werror)
mkdir -p "$folder"
cd "${SUMMAND_SOURCE:?must name the source directory}"
# shellcheck disable=SC2068 # A word of the arguments may hold several flags.
for flag in $@; do
	kernel_flags+=("$flag")
done
"$cc" "${flags[@]}" "${kernel_flags[@]}" -fno-tree-vectorize -c $kernels/scalar.c -o "$folder/scalar.o"
"$cc" "${flags[@]}" "${kernel_flags[@]}" -c $kernels/neon.c -o "$folder/neon.o"
"$cc" "${flags[@]}" -static -o "$folder/check_kernels" tests/kernels/*.c $kernels/dispatch.c \
	$kernels/convert.c reduction_server/base/dtype.c reduction_server/base/error.c reduction_server/base/log.c reduction_server/base/printable.c "$folder/scalar.o" "$folder/neon.o" -lm

qemu-aarch64 "$folder/check_kernels" reference --brief
qemu-aarch64 "$folder/check_kernels" variants neon --brief
tests/kernels/dispatch.sh qemu-aarch64 "$folder/check_kernels"
