#!/usr/bin/env bash
# What tools/gpu-check says of its parts (tools/gpu/verdict): each has its time and no more, what has come is kept whatever
# comes after it, and is small; and where tools/gpu/places finds what programs for GPUs are made of.
set -uo pipefail

cd "${SUMMAND_SOURCE:?must name the source directory}" || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

# In a shell of its own: what a run says of its parts, of which those in "awaited" are to come.
awaited=()
run() {
	(
		# shellcheck disable=SC2034 # for what is sourced
		out=$scratch/$1 work=$scratch runs=$scratch/runs KEPT_BYTES=1000 mps='' deadline=$((SECONDS + $2))
		rm -rf "$out" "$runs"
		mkdir -p "$out" "$runs/deep"
		stop_servers() { :; }
		device_test() { sleep 1; }
		names=("${awaited[@]}")
		# shellcheck source=tools/gpu/verdict
		. tools/gpu/verdict
		awaited=("${names[@]}")
		trap finish EXIT
		trap 'exit 1' TERM
		say "a machine"
		say "a GPU"
		"$1"
	) >"$scratch/said" 2>&1
}

# has FOLDER PATTERN...: the table.
has() {
	local folder=$1 pattern

	shift
	for pattern; do
		grep -qE "$pattern" "$scratch/$folder/verdict.txt" || fail "the verdict must have \"$pattern\", got:
$(cat "$scratch/$folder/verdict.txt" 2>&1)
$(cat "$scratch/said")"
	done
}

parts() {
	check "something before all parts" true
	head -c 5000 /dev/zero | tr '\0' x >"$runs/deep/rank0.nccl"
	echo end >>"$runs/deep/rank0.nccl"
	head -c 5000 /dev/zero >"$runs/weights"
	begin_part good 100 && check "one" true && check "two" true && end_part
	begin_part bad 100 && check "three" true
	check "four is true" false
	check "five is true" false
	end_part
	begin_part away 100 && skip "there is none" && end_part
	begin_part short "$LEAST" && check "six" device_test
	check "what it has left" true # takes no time
	check "seven" device_test     # has no time, and so has not failed,
	check "what that has left" false
	end_part
	deadline=$SECONDS
	begin_part late 100 && fail "it has no time"
	exit 1
}

run parts 1000
has parts '^a GPU$' '^good +held +2 ok +0 failed' '^bad +FAILED +1 ok +2 failed .* four is true$' \
	'^away +skipped .* there is none$' '^short +cut +2 ok +0 failed +2 without time' '^late +not run' '^2 FAILED$'
[ "$(find "$scratch/parts" -type f | wc -l)" -lt 8 ] || fail "there must be fewer than 8 files"
mkdir "$scratch/kept"
tar -xzf "$scratch/parts/logs.tar.gz" -C "$scratch/kept" || fail "the logs must be kept"
[ "$(stat -c %s "$scratch/kept/logs/deep/rank0.nccl")" = 1000 ] || fail "the last 1000 bytes of a log must be kept"
grep -q 'end$' "$scratch/kept/logs/deep/rank0.nccl" || fail "the end of a log must be kept"
[ ! -e "$scratch/kept/logs/weights" ] || fail "weights are no log"

all_well() {
	begin_part good 100 && check "one" true && end_part
}

run all_well 1000
has all_well '^all held$'

some_away() {
	all_well
	begin_part away 100 && skip "there is none" && end_part
}

run some_away 1000
has some_away '^what has run held; not all has$'

# Ended from outside in the middle of a part.
ended() {
	begin_part good 100 && check "one" true && end_part
	begin_part hangs 100 && check "two" true
	kill -TERM "$BASHPID"
	sleep 100
}

awaited=(good hangs later)
run ended 1000
has ended '^good +held' '^hangs +cut +1 ok' '^later +not run' '^what has run held; not all has$'

# A machine that goes away leaves the table of what had ended before, and that is not all.
gone() {
	begin_part good 100 && check "one" true && end_part
	kill -KILL "$BASHPID"
}

awaited=(good later)
{ run gone 1000; } 2>/dev/null # the shell says that it was killed
has gone '^good +held' '^later +not run' '^what has run held; not all has$'
awaited=()

# A run is ended with its part.
hangs() {
	begin_part hangs 6 && check "a run" timeout "$(time_left)" sleep 100
	end_part
}

SECONDS=0
run hangs 1000
[ "$SECONDS" -lt 60 ] || fail "a part must end in its time"
has hangs '^hangs +FAILED'

# A run that was at work to the end of its part's time is no failure; one that has failed by then is.
slow() {
	perf_ranks() { timeout "$(time_left)" sleep 100; }
	served() { sleep "$(time_left)" && false; }
	begin_part slow 6 && check "a slow run" perf_ranks
	check "what it has left" false
	end_part
	begin_part broken 6 && check "a broken run" served
	end_part
}

run slow 1000
has slow '^slow +cut +0 ok +0 failed +2 without time' '^broken +FAILED +0 ok +1 failed'

# ---- places ----

wheel=$scratch/site/nvidia
mkdir -p "$wheel"/{nccl,cuda_runtime}/{include,lib}
touch "$wheel"/nccl/{include/nccl.h,lib/libnccl.so.2} "$wheel"/cuda_runtime/{include/cuda.h,include/cuda_runtime_api.h,lib/libcudart.so.12}
places=$(PYTHONPATH=$scratch/site tools/gpu/places)
for line in "cuda $wheel/cuda_runtime" "cudart $wheel/cuda_runtime/lib/libcudart.so.12" "nccl $wheel/nccl/lib/libnccl.so.2"; do
	grep -qxF "$line" <<<"$places" || fail "places must have \"$line\", got: $places"
done
[ "$(NCCL_HOME=$wheel/nccl tools/gpu/places nccl)" = "$wheel/nccl/lib/libnccl.so.2" ] || fail "NCCL_HOME must come first"
ln -s libnccl.so.2 "$wheel/nccl/lib/libnccl.so"
mkdir "$scratch/link"
ln -s "$wheel/nccl/include" "$wheel/nccl/lib" "$scratch/link"
[ "$(NCCL_HOME=$scratch/link PYTHONPATH=$scratch/site tools/gpu/places | grep -c "^nccl $scratch")" = 1 ] ||
	fail "what is reached by two ways is one"

[ "$failures" = 0 ]
