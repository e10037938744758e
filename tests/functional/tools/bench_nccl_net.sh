#!/usr/bin/env bash
# bench-nccl-net measures two libraries, here the same one twice, and refuses what it does not know.
set -uo pipefail

bench=$SUMMAND_SOURCE/tools/bench-nccl-net
plugin=$SUMMAND_BUILD/lib/libnccl-net-summand.so
failed=0

fail() {
	echo "FAILED: $*"
	failed=1
}

"$bench" --help | grep -q -- --peer=LIBRARY || fail "--help must name its options"
"$bench" --nonsense >/dev/null 2>&1
[ $? = 2 ] || fail "an unknown option must end with 2"
"$bench" --build="$SUMMAND_BUILD" --peer=/nowhere.so >/dev/null 2>&1 && fail "a library that is not there must fail"
said=$("$bench" --build="$SUMMAND_BUILD" --peer="$plugin" --rounds=1 --sizes=1000000 --connections=1,3 2>&1) ||
	fail "it must succeed: $said"
for line in 'bandwidth *1000000 B *1 connection ' 'latency *1000000 B *1 connection ' 'bandwidth *1000000 B *3 connections'; do
	grep -Eq "^$line.*ratio [0-9.]+$" <<<"$said" || fail "must print \"$line\", got: $said"
done
exit "$failed"
