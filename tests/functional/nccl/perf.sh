#!/usr/bin/env bash
# summand-nccl-perf: what it says of its command line, and of a machine without a GPU.
set -uo pipefail

program=${SUMMAND_BUILD:?must name the build directory}/bin/summand-nccl-perf
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

if [ ! -x "$program" ]; then
	echo "skipped: built without NCCL"
	exit 77
fi

# says EXIT_CODE TEXT ARGUMENT...
says() {
	local code=$1 text=$2 got result

	shift 2
	got=$("$program" "$@" 2>&1 </dev/null)
	result=$?
	if [ "$result" != "$code" ] || [[ $got != *"$text"* ]]; then
		echo "FAILED: $*: must exit with $code and say \"$text\", got $result: $got"
		failures=$((failures + 1))
	fi
}

one=(--nranks=2 --rank=0 "--id-file=$scratch/id")
says 0 "Measures NCCL's all-reduce" --help
says 2 "--nranks, and --rank below it, must be given"
says 2 "--rank below it" --nranks=2 --rank=2 "--id-file=$scratch/id"
says 2 "--id-file: must be given" --nranks=2 --rank=0
says 2 'must be all, or of int8' "${one[@]}" --dtype=float31
says 2 'must be all, or of sum' "${one[@]}" --op=sum,xor
says 2 "--factor at least 2" "${one[@]}" --factor=1
says 2 "at most --max" "${one[@]}" --min=1M --max=1K
says 2 "must be 1 to 86400" "${one[@]}" --timeout=0
says 2 "no operand" "${one[@]}" more
CUDA_VISIBLE_DEVICES='' says 77 "there is no CUDA device" "${one[@]}"
[ ! -e "$scratch/id" ] || {
	echo "FAILED: without a GPU no id may be left"
	failures=$((failures + 1))
}

[ "$failures" = 0 ]
