#!/usr/bin/env bash
# tools/nccl-without-gpu: what it says of its command line and of what it lacks; and its scenarios, where SUMMAND_NCCL_SOURCE names
# folders with NCCL's source (a:b): all of them with the first one, some with the others. Without that variable some with what the
# tool has built before, the newest NCCL and the oldest.
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
says 2 'whole needs --rdma' "$scratch" whole
says 77 "has no makefiles/version.mk" "$scratch" "--build=$build"
says 77 "must be 2.19 to 2.30, got 2.18.6" "$scratch/2.18" "--build=$build"
CUDA_HOME=$scratch says 77 "CUDA 13's headers must be in $scratch/include, got none" "$scratch/2.28" "--build=$build"
[ "$failures" = 0 ] || exit 1

SOME=(collectives lost abort)
IFS=: read -ra sources <<<"${SUMMAND_NCCL_SOURCE:-}"
if [ "${#sources[@]}" != 0 ]; then
	"$tool" "${sources[0]}" "--build=$build" || exit
	for source in "${sources[@]:1}"; do
		"$tool" "$source" "--build=$build" "${SOME[@]}" || exit
	done
	exit
fi
mapfile -t built < <(cd "$build/nccl_sim" 2>/dev/null && printf '%s\n' */bin/scenario | grep -v '^\*' | cut -d / -f 1 | sort -V)
if [ "${#built[@]}" = 0 ]; then
	echo "skipped: SUMMAND_NCCL_SOURCE names no folder with NCCL's source, and the build has no nccl_sim"
	exit 77
fi
for version in $(printf '%s\n' "${built[0]}" "${built[-1]}" | uniq); do
	"$SUMMAND_SOURCE/tests/nccl_sim/play" "$build" "$build/nccl_sim/$version" "$version" 2 1 switch 120 tcp "${SOME[@]}" || exit
done
