#!/usr/bin/env bash
# libnccl-net-summand.so exports the tables that NCCL looks up, and nothing else; it wants nothing of
# CUDA, of NCCL and, where these have archives, of other packages; and it can be opened as NCCL does, and by the name that
# RCCL makes of the same NCCL_NET_PLUGIN.
#
#   exports.sh STATIC
set -uo pipefail

static=$1
library=${SUMMAND_BUILD:?must name the build directory}/lib/libnccl-net-summand.so
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

for tool in nm readelf; do
	if ! command -v "$tool" >/dev/null; then
		echo "skipped: no $tool to look into the library with"
		exit 77
	fi
done

expected=$(printf '%s\n' {ncclNetPlugin,ncclCollNetPlugin}_v{6,8,9,10,11,12} ncclTunerPlugin_v{2,3,4,5} | sort)
diff <(echo "$expected") <(nm -D --defined-only "$library" | awk '{ print $3 }' | sort) ||
	fail "the tables (<) and what the library exports (>) must agree"

wanted=$(nm -D --undefined-only "$library" | awk '{ print $NF }' | grep -E '^p?nccl|^cu[A-Z]|^cuda')
[ -z "$wanted" ] || fail "nothing of NCCL and CUDA may be wanted, got $wanted"

needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
	grep -vE '^(lib(c|m|dl|pthread|gcc_s)|ld-linux.*)\.so')
[ "$static" != ON ] || [ -z "$needed" ] || fail "no package may be needed, got $needed"
! grep -E 'ibverbs|rdmacm' <<<"$needed" || fail "RDMA may not be needed to be opened"

# 2.35 is Ubuntu 22.04's, which many containers with GPUs begin with.
newest=$(nm -D --undefined-only "$library" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
[ "$static" != ON ] || [ "$(printf '%s\n' "$newest" GLIBC_2.35 | sort -V | tail -n 1)" = GLIBC_2.35 ] ||
	fail "glibc 2.35 must be enough, got $newest"

python=/usr/bin/python3
if [ -x "$python" ]; then
	for file in "$library" "${library%/*}/librccl-net-summand.so"; do
		"$python" -c 'import ctypes, os, sys
ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL).ncclTunerPlugin_v5' "$file" || fail "$file must open"
	done
else
	echo "opening it is left out here: that needs python3"
fi

[ "$failures" = 0 ]
