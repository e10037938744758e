#!/usr/bin/env bash
# A server is killed, stopped, drained and added while ranks reduce, and the tool says a stall of each. No limit is asked for but one
# that nothing keeps: how long it takes is not for a test beside others.
set -euo pipefail

bench="${SUMMAND_SOURCE:?must name the source directory}/tools/bench-failover"
build="${SUMMAND_BUILD:?must name the build directory}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

status=0
"$bench" --build="$build" --over=shm --ranks=2 --rounds=1 --long=4M --by=kill,stop,drain,join --limit-ms=-1000 --json >"$scratch/done" 2>"$scratch/err" ||
	status=$?
[ "$status" = 1 ]
grep -q "^bench-failover: shm kill: must be at most -1000 ms in the median, got [0-9.-]*, and [0-9.-]* at worst$" "$scratch/err"
python3 - "$scratch/done" <<-'END'
	import json, sys
	done = json.load(open(sys.argv[1]))
	rows = [(row["over"], row["way"], row["size"], len(row["stalls_ms"])) for row in done["results"]]
	assert done["ranks"] == 2 and rows == [("shm", "kill", "1M", 1), ("shm", "stop", "1M", 1), ("shm", "drain", "4M", 1), ("shm", "join", "4M", 1)], done
END
"$bench" --build="$build" --over=tcp --ranks=2 --rounds=1 --by=none --limit-ms=-1000 | grep -q "^tcp *none *1M *median "
over=collnet
[ ! -e "$build/tests/staged_failover" ] || over=$over,staged # which needs CUDA's headers
"$bench" --build="$build" --over="$over" --ranks=2 --rounds=1 --by=kill >"$scratch/done"
for one in ${over//,/ }; do
	grep -q "^$one *kill *1M *median " "$scratch/done"
done
for wrong in --over=magic --by=magic --servers=1 --limit=soon --limit-ms=soon --color; do
	status=0
	"$bench" --build="$build" $wrong 2>/dev/null || status=$?
	[ "$status" = 2 ]
done
status=0
"$bench" --build=/nonexistent 2>/dev/null >&2 || status=$?
[ "$status" = 1 ]
