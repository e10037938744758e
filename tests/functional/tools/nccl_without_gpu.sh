#!/usr/bin/env bash
# tools/nccl-without-gpu: what it says of its command line and of what it lacks; and all of its scenarios,
# where SUMMAND_NCCL_SOURCE names a folder with NCCL's source.
set -uo pipefail

tool=${SUMMAND_SOURCE:?must name the source directory}/tools/nccl-without-gpu
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

mkdir -p "$scratch/2.18/makefiles" "$scratch/2.28/makefiles"
printf 'NCCL_MAJOR   := 2\nNCCL_MINOR   := 18\nNCCL_PATCH   := 6\n' >"$scratch/2.18/makefiles/version.mk"
printf 'NCCL_MAJOR   := 2\nNCCL_MINOR   := 28\nNCCL_PATCH   := 9\n' >"$scratch/2.28/makefiles/version.mk"
says 0 "Runs NCCL's own host code" --help
says 2 "must be given"
says 2 'unknown option "--fast"' "$scratch" --fast
says 2 'one of collectives' "$scratch" sum
says 2 'must be 2 to 16, got "1"' "$scratch" --nodes=1
says 2 'number of seconds, got ""' "$scratch" --limit=
says 2 'registered needs --rdma' "$scratch" registered
says 77 "has no makefiles/version.mk" "$scratch" "--build=$build"
says 77 "must be 2.19 to 2.30, got 2.18.6" "$scratch/2.18" "--build=$build"
CUDA_HOME=$scratch says 77 "CUDA 13's headers must be in $scratch/include, got none" "$scratch/2.28" "--build=$build"
[ "$failures" = 0 ] || exit 1

if [ -z "${SUMMAND_NCCL_SOURCE:-}" ]; then
	echo "skipped: SUMMAND_NCCL_SOURCE names no folder with NCCL's source"
	exit 77
fi
"$tool" "$SUMMAND_NCCL_SOURCE" "--build=$build"
