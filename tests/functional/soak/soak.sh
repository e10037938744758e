#!/usr/bin/env bash
# soak.sh TLS_SERVERS: tools/soak for a short while: nothing breaks, what it says is complete, and it refuses what it cannot do.
set -uo pipefail

soak=${SUMMAND_SOURCE:?must name the source directory}/tools/soak
build=${SUMMAND_BUILD:?must name the build directory}
tls_servers=${1:?must be how many servers have TLS}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
failures=0

fail() {
	echo "FAILED: $*"
	cat "$output"
	failures=$((failures + 1))
}

# expect CODE TEXT ARGUMENT...
expect() {
	local code=$1 text=$2 got

	shift 2
	"$soak" "$@" >"$output" 2>&1
	got=$?
	if [ "$got" != "$code" ] || ! grep -qE -- "$text" "$output"; then
		fail "soak $*: must exit with $code and say '$text', got $got"
	fi
}

expect 0 '^ +--seconds=N' --help
expect 2 'soak: --second=3: must be an option with a value' --second=3
expect 2 'soak: --seconds: must be a whole number from 1 on, got 0' --seconds=0
expect 2 'soak_rank: must be there: tools/build' --build=/nonexistent
expect 2 'soak: --tls-servers: must be a whole number from 0 on, got none' --tls-servers=none
expect 1 'BROKEN at 0 s: reduction server: must be ready' --seconds=1 --build="$build" --server-args=--threads=0
expect 0 '^nothing broke' --seconds=15 --seed=3 --jobs=3 --most=8388608 --tls-servers="$tls_servers" --build="$build"
for part in '[1-9][0-9]* good jobs' '[1-9][0-9]* jobs with a death' '[1-9][0-9]* results compared' '^strangers: '; do
	grep -qE -- "$part" "$output" || fail "the summary must say '$part'"
done
# It tells what broke also where too little was seen to compare.
python3 -Bc 'import sys; sys.path.insert(0, sys.argv[1]); import servers
samples = servers.Samples.__new__(servers.Samples)
samples.rows = [(0.1, 1, 2, 3, 4), (2, 1, 2, 3, 4)]
assert samples.growth(2) == 0' "${soak}ing" || fail "samples of a short time must be comparable"
[ "$tls_servers" = 0 ] || grep -qE -- '[1-9][0-9]* of all over TLS' "$output" || fail "some jobs must go over TLS"
[ "$failures" = 0 ]
