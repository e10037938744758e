#!/usr/bin/env bash
# tools/rccl-without-gpu: what it says of its command line and of what it lacks; and RCCL's loader with the plugin, where
# SUMMAND_RCCL_SOURCE and SUMMAND_ROCM_SOURCES name folders with RCCL's source and ROCm's.
set -uo pipefail

tool=${SUMMAND_SOURCE:?must name the source directory}/tools/rccl-without-gpu
build=${SUMMAND_BUILD:?must name the build directory}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# says EXIT_CODE TEXT ARGUMENT...
says() {
	local code=$1 text=$2 got result

	shift 2
	got=$("$tool" "$@" 2>&1 </dev/null)
	result=$?
	if [ "$result" != "$code" ] || [[ $got != *"$text"* ]]; then
		echo "FAILED: $*: must exit with $code and say \"$text\", got $result: $got"
		failures=$((failures + 1))
	fi
}

mkdir -p "$scratch/rccl/src/misc"
touch "$scratch/rccl/src/misc/rocmwrap.cc"
says 0 "Compiles RCCL's own host code" --help
says 2 "must be given" "$scratch"
says 2 'unknown option "--fast"' "$scratch" "$scratch" --fast
says 2 'must be like 6.2.2, got "5.7"' "$scratch" "$scratch" --rocm=5.7
says 2 'number of seconds, got ""' "$scratch" "$scratch" --limit=
says 77 "must be RCCL's source" "$scratch" "$scratch"
says 77 "$scratch/HIP/include/hip must be there" "$scratch/rccl" "$scratch"
[ "$failures" = 0 ] || exit 1

if [ -z "${SUMMAND_RCCL_SOURCE:-}" ] || [ -z "${SUMMAND_ROCM_SOURCES:-}" ]; then
	echo "skipped: SUMMAND_RCCL_SOURCE and SUMMAND_ROCM_SOURCES name no folders with the sources"
	exit 77
fi
"$tool" "$SUMMAND_RCCL_SOURCE" "$SUMMAND_ROCM_SOURCES" "--build=$build"
