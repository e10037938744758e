#!/usr/bin/env bash
# summand-nccl-perf: what it says of its command line, and of a machine without a GPU; and all that it
# does, with stand-ins for a GPU and for NCCL of one rank (fake_nccl.c).
set -uo pipefail

program=${SUMMAND_BUILD:?must name the build directory}/bin/summand-nccl-perf
fake=$SUMMAND_BUILD/tests/nccl_perf_fake
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

# Of each line what is the same in every run: no times.
rows() {
	awk '$1 ~ /^[0-9]+$/ { print $1, $2, $3, $4, $9, $14, $NF }'
}

program=$fake
one=(--nranks=1 --rank=0 "--id-file=$scratch/id" --iters=3)
got=$("$fake" "${one[@]}" --min=1K --max=4K --dtype=int32,float64 --op=sum,max | rows)
# Both reductions of one rank are its input.
counts=$(awk '{ print $1, $2, $3, $4, $5, $6 }' <<<"$got")
expected="1024 256 int32 sum 0 0
4096 1024 int32 sum 0 0
1024 256 int32 max 0 0
4096 1024 int32 max 0 0
1024 128 float64 sum 0 0
4096 512 float64 sum 0 0
1024 128 float64 max 0 0
4096 512 float64 max 0 0"
diff <(echo "$expected") <(echo "$counts") || {
	echo "FAILED: the rows must be these (<)"
	failures=$((failures + 1))
}
[ "$(awk '{ print $1, $3, $7 }' <<<"$got" | sort -u | wc -l)" = 4 ] || {
	echo "FAILED: equal results must have equal hashes, and others not: $got"
	failures=$((failures + 1))
}

# The same run as one object: what is in the table, by the names of summand-perf where it means the same.
"$fake" "${one[@]}" --min=1K --max=4K --dtype=int32,float64 --op=sum,max --json >"$scratch/json" ||
	{
		echo "FAILED: --json"
		failures=$((failures + 1))
	}
python3 - "$scratch/json" "$got" <<'END' || failures=$((failures + 1))
import json, sys

with open(sys.argv[1]) as file:
    told = json.load(file)
assert (told["nranks"], told["iters"], told["warmup"]) == (1, 3, 5), told
assert (told["wrong"], told["differing"]) == (0, 0), told
assert told["nccl"] > 2000 and told["version"], told
lines = []
for row in told["results"]:
    lines.append(" ".join(map(str, [row["bytes"], row["count"], row["dtype"], row["op"],
                                    row["out_of_place"]["wrong"], row["in_place"]["wrong"], row["hash"]])))
    for way in row["out_of_place"], row["in_place"]:
        us = way["time_us"]["mean"]
        assert us > 0 and abs(way["algbw_GBps"] / (row["bytes"] / us / 1e3) - 1) < 1e-3, row
        assert way["busbw_GBps"] == 0, row  # of one rank
    assert row["differs"] is False, row
assert lines == sys.argv[2].splitlines(), (lines, sys.argv[2])
END
FAKE=last says 1 '"wrong": 2,' "${one[@]}" --max=4K --json
FAKE=bit says 1 '"results": [' "${one[@]}" --max=4K --json
says 0 "results that differ between ranks: 0 OK" "${one[@]}" --dtype=all --op=all --max=4K
FAKE=bit says 1 "FAILED" "${one[@]}" --max=4K
FAKE=last says 1 "# wrong elements: 2, " "${one[@]}" --max=4K
# Sums that round are right in one order alone; of one rank they are its input.
says 2 "--rounding: must be with --dtype=float64 and --op=sum alone" "${one[@]}" --rounding
says 2 "--op=sum alone" "${one[@]}" --rounding --dtype=float64 --op=sum,max
rounding=("${one[@]}" --max=4K --dtype=float64 --op=sum --rounding)
says 0 "results that differ between ranks: 0 OK" "${rounding[@]}"
FAKE=last says 1 "# wrong elements: 2, " "${rounding[@]}"
[ "$("$fake" "${rounding[@]}" | rows)" != "$("$fake" "${rounding[@]/--rounding/--graph}" | rows)" ] || {
	echo "FAILED: --rounding must have other inputs"
	failures=$((failures + 1))
}
# Graphs do the same, and a graph that does not is noticed; memory comes and goes meanwhile.
diff <(echo "$got") <("$fake" "${one[@]}" --min=1K --max=4K --dtype=int32,float64 --op=sum,max --graph | rows) || {
	echo "FAILED: with graphs the rows must be the same (>)"
	failures=$((failures + 1))
}
FAKE=last says 1 "# wrong elements: 2, " "${one[@]}" --max=4K --graph
FAKE=slow says 0 " allocations beside" "${one[@]}" --max=4K --churn
FAKE=slow "$fake" "${one[@]}" --max=4K --churn 2>&1 >/dev/null | grep -q '[1-9][0-9]* allocations beside' || {
	echo "FAILED: memory must have been allocated beside"
	failures=$((failures + 1))
}
FAKE=error says 1 "rank 0: all-reduce: remote process has gone: NET/Summand: lost 10.0.0.9:2222" "${one[@]}"
FAKE=hang says 1 "no progress until the timeout" "${one[@]}" --timeout=1
# Iterations that take longer than the timeout are no hang: each is 5 ms of the device. A network that fails
# when many have been begun is noticed, though NCCL then waits without end in ncclAllReduce.
many=("${one[@]}" --max=4K --warmup=0)
FAKE=slow says 0 "results that differ between ranks: 0 OK" "${many[@]}" --iters=500 --timeout=2
FAKE=late-error says 1 "rank 0: all-reduce: remote process has gone: NET/Summand: lost 10.0.0.9:2222" \
	"${many[@]}" --iters=100000 --timeout=5
says 2 "--device: must be below 1, got 1" "${one[@]}" --device=1
: >"$scratch/id"
says 1 "$scratch/id: must not be there yet" "${one[@]}"
says 1 "$scratch/id: must hold 128 bytes, got 0" --nranks=2 --rank=1 "--id-file=$scratch/id"

[ "$failures" = 0 ]
