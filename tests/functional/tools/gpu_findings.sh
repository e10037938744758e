#!/usr/bin/env bash
# What tools/gpu-check concludes from what its runs have left (tools/gpu/findings), on made-up folders: each
# claim must hold where it is true, and must not where it is false.
set -uo pipefail

cd "${SUMMAND_SOURCE:?must name the source directory}" || exit 1
# shellcheck source=tools/gpu/findings
. tools/gpu/findings
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
folder=$scratch/run
failures=0

# holds COMMAND...
holds() {
	"$@" >"$scratch/said" 2>&1 || {
		echo "FAILED: must hold: $*: $(cat "$scratch/said")"
		failures=$((failures + 1))
	}
}

# fails WHY COMMAND...
fails() {
	local why=$1

	shift
	if "$@" >"$scratch/said" 2>&1; then
		echo "FAILED: $why, and yet it holds: $*"
		failures=$((failures + 1))
	fi
}

# ---- what the pack was made of ----

# In a small tree.
small=$scratch/tree
mkdir -p "$small"/{tools/gpu,tests/unit,reduction_server,worker} "$scratch/packed"
cp tools/gpu/sources "$small/tools/gpu"
touch "$small"/{CMakeLists.txt,tests/CMakeLists.txt,worker/summand.h}
fails "the pack does not say it" of_these_sources "$scratch/packed" "$small"
"$small/tools/gpu/sources" >"$scratch/packed/sources"
holds of_these_sources "$scratch/packed" "$small"
touch "$small/worker/picture.png"
holds of_these_sources "$scratch/packed" "$small"
echo "/* changed */" >"$small/worker/summand.h"
fails "a header has changed" of_these_sources "$scratch/packed" "$small"
grep -q "tools/gpu-check --pack" "$scratch/said" || {
	echo "FAILED: it must say what to do, got: $(cat "$scratch/said")"
	failures=$((failures + 1))
}

# ---- a server that was lost ----

INFO='vm:1:2 [0] NCCL INFO NET/Summand'
WARN='[2026-11-21 18:55:20] vm:1:2 [0] libnccl-net-summand:0 NCCL WARN NET/Summand'
LOST='CollNet over 2 nodes (this is node 0): reduction server 127.0.0.1:4000 was lost: the other end closed'

# lost_folder: of two ranks that lost a server as they must.
lost_folder() {
	rm -rf "$folder"
	mkdir "$folder"
	for r in 0 1; do
		printf '%s\n' "$INFO: 0.1.0; net v6, tuner v2; servers 127.0.0.1:4000,127.0.0.1:4001; on" "$WARN: $LOST" \
			>"$folder/rank$r.nccl"
		echo "summand-nccl-perf: rank $r: all-reduce: remote process exited or there was a network error: $LOST" \
			>"$folder/rank$r.err"
	done
}

lost_folder
holds told_of_loss "$folder" 2 127.0.0.1:4000
holds failed_by_nccl "$folder" 2
fails "it is another server" told_of_loss "$folder" 2 127.0.0.1:4001
fails "it is another port" told_of_loss "$folder" 2 127.0.0.1:400
fails "there is no log of a third rank" told_of_loss "$folder" 3 127.0.0.1:4000
sed -i '/WARN/d' "$folder/rank1.nccl"
fails "rank 1 only began with that server" told_of_loss "$folder" 2 127.0.0.1:4000
lost_folder
echo "$INFO: libsummand: reduction server 127.0.0.1:4000 was lost: the other end closed" >"$folder/rank1.nccl"
fails "rank 1 was not warned" told_of_loss "$folder" 2 127.0.0.1:4000
lost_folder
echo "summand-nccl-perf: rank 1: all-reduce: unhandled system error (run with NCCL_DEBUG=INFO for details): $LOST" \
	>"$folder/rank1.err"
holds failed_by_nccl "$folder" 2
echo "summand-nccl-perf: no progress until the timeout, giving up" >>"$folder/rank0.err"
fails "rank 0 ended by its timeout" failed_by_nccl "$folder" 2
lost_folder
: >"$folder/rank1.err"
fails "rank 1 says nothing" failed_by_nccl "$folder" 2

holds in_no_log "$folder" 'Cannot initialize CollNet'
fails "a log has it" in_no_log "$folder" 'NCCL WARN'
rm "$folder"/rank*.nccl
fails "there is no log" in_no_log "$folder" 'Cannot initialize CollNet'

# ---- what the servers did ----

# told FOLDER BYTES...: what servers have received, one each.
told() {
	local i=0 bytes

	rm -rf "$1"
	mkdir "$1"
	for bytes in "${@:2}"; do
		echo "info  server: ended: 9 chunks reduced, $bytes bytes received, 7 bytes sent, 8 lanes" >"$1/server$i.err"
		i=$((i + 1))
	done
}

# It is compared as a whole number, which mawk does not print of itself.
told "$folder" 13628200005 13628200005
holds test "$(received "$folder")" = 27256400010
echo "warn  server: lost" >"$folder/server1.err"
fails "one server was not heard" received "$folder"

# swept RECEIVED: of two ranks, 4 KiB to 4 MiB; 64 all-reduces of each size, 32 out of place and 32 in place.
swept() {
	told "$folder" "$1" 0
	cat >"$folder/rank0.out" <<-END
		# summand-nccl-perf 0.1.0: all-reduce of 2 ranks, NCCL 22809
		# 26 iterations after 5, one after another; time is that of the slowest rank; GB/s of 10^9 bytes
		#       size        count       type    op |       time    algbw    busbw  wrong |
		        4096         1024    float32   sum |    21659.8    0.000    0.000      0 |
		     1048576       262144    float32   sum |    29614.0    0.035    0.035      0 |
		     4194304      1048576    float32   sum |    95325.2    0.044    0.044      0 |
		# wrong elements: 0, results that differ between ranks: 0 OK
	END
}

large=$((2 * 64 * (1048576 + 4194304)))
swept "$large"
holds test "$(reduced "$folder" 1048576)" = "$large"
holds test "$(reduced "$folder" 0)" = $((large + 2 * 64 * 4096))
holds served_all "$folder" 1048576
fails "the small ones are missing" served_all "$folder" 0
fails "they were served" served_none "$folder"
swept $((large - 1))
fails "a byte is missing" served_all "$folder" 1048576
swept $((2 * 64 * 4194304))
fails "those of 1 MiB are missing" served_all "$folder" 1048576
swept 5000
holds served_none "$folder"
: >"$folder/rank0.out"
fails "nothing has run" served_all "$folder" 0
fails "nothing has run" served_none "$folder"

# ---- what can be trained ----

# torch_has CUDA NCCL [VERSION]: a PyTorch with True or False of each, which knows no other version.
torch_has() {
	rm -rf "$scratch/site"
	mkdir -p "$scratch/site/torch"
	cat >"$scratch/site/torch/__init__.py" <<-END
		class cuda:
		    is_available = staticmethod(lambda: $1)
		    class nccl:
		        version = staticmethod(lambda: (${3:-1 / 0}))
	END
	echo "is_nccl_available = lambda: $2" >"$scratch/site/torch/distributed.py"
}

trains() {
	PYTHONPATH=$scratch/site can_train "$@"
}

by_sockets() {
	[ "$(PYTHONPATH=$scratch/site socket_way)" = "$1" ]
}

torch_has True True "2, 26, 2"
holds trains
holds trains plugin
holds by_sockets nccl
torch_has True True "2, 18, 1"
holds trains
fails "this NCCL has no tuner" trains plugin
torch_has True False
holds trains
fails "there is no NCCL" trains plugin
holds by_sockets gloo
torch_has False False
fails "there is no CUDA" trains
fails "there is no CUDA" trains plugin

# ---- what was trained ----

# trained FOLDER HASH... : one for each rank.
trained() {
	local folder=$scratch/$1 r=0 hash

	rm -rf "$folder"
	mkdir "$folder"
	for hash in "${@:2}"; do
		echo "loss 0.${r}123 weights $hash step 8.1 ms, PyTorch 2.9.0, NCCL 2.27.5" >"$folder/rank$r.out"
		r=$((r + 1))
	done
}

trained one 0123456789abcdef 0123456789abcdef
trained other 0123456789abcdef 0123456789abcdef
holds one_model "$scratch/one" 2
holds same_model "$scratch/one" "$scratch/other" 2
fails "a third rank is missing" one_model "$scratch/one" 3
trained other fedcba9876543210 fedcba9876543210
fails "the models differ" same_model "$scratch/one" "$scratch/other" 2
trained other 0123456789abcdef fedcba9876543210
fails "the ranks' models differ" one_model "$scratch/other" 2
fails "the ranks' models differ" same_model "$scratch/one" "$scratch/other" 2
: >"$scratch/one/rank0.out"
: >"$scratch/one/rank1.out"
fails "there is no model" one_model "$scratch/one" 2

# weights NAME NUMBER...
weights() {
	python3 -c 'import array, sys; array.array("f", map(float, sys.argv[1:])).tofile(sys.stdout.buffer)' "${@:2}" \
		>"$scratch/$1/weights"
}

fails "there are no weights" near_model "$scratch/one" "$scratch/other" 1e-5
weights one 0.5 -2 0.001
weights other 0.50001 -2 0.001
holds near_model "$scratch/one" "$scratch/other" 1e-5
weights other 0.50003 -2 0.001
fails "a weight is off by more than 0.00002" near_model "$scratch/one" "$scratch/other" 1e-5
weights other 0.5 -2
fails "a weight is missing" near_model "$scratch/one" "$scratch/other" 1e-5
weights other 0.5 nan 0.001
fails "a weight is no number" near_model "$scratch/one" "$scratch/other" 1e-5
weights one
weights other
fails "there are no weights" near_model "$scratch/one" "$scratch/other" 1e-5

[ "$failures" = 0 ]
