#!/usr/bin/env bash
# tools/gpu-check where there is no GPU: what it says; that it builds from its pack alone, without a network, with a TLS
# that works; and all of it on a simulated GPU, where tools/nccl-without-gpu has made one: a copy of the tree with the pack
# where a GPU's machine has them, and nothing else. What it concludes from a run on a GPU is tested by gpu_findings.sh and
# gpu_verdict.sh.
#
#   gpu_check.sh words|build|rehearsal [1|0]
#
# 1: the programs of the test's own build can speak TLS.
set -uo pipefail

part=$1
tls=${2:-0}
cd "${SUMMAND_SOURCE:?must name the source directory}" || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

# says EXIT_CODE TEXT COMMAND...
says() {
	local code=$1 text=$2 got result

	shift 2
	got=$("$@" 2>&1 </dev/null)
	result=$?
	[ "$result" = "$code" ] && [[ $got == *"$text"* ]] ||
		fail "$*: must exit with $code and say \"$text\", got $result: $got"
}

if [ "$part" = words ]; then
	says 0 "Checks Summand on a GPU" tools/gpu-check --help
	says 2 'got "--fast"' tools/gpu-check --fast
	says 2 'got "--out="' tools/gpu-check --out=
	says 0 "device:60 perf-2:" tools/gpu-check --help
	says 2 'must be one of device perf-2' tools/gpu-check --part=perf
	says 1 "must name the folder" tools/gpu/build
	if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
		says 77 "this machine has no NVIDIA GPU" tools/gpu-check "--out=$scratch/out"
		[ ! -e "$scratch/out" ] || fail "a run that is skipped may leave nothing"
	fi
	[ "$failures" = 0 ]
	exit
fi

simulated=$(find "$SUMMAND_BUILD/nccl_sim" -path '*/lib/libnccl.so.2' 2>/dev/null | sort -V | tail -n 1)
if [ "$part" = rehearsal ] && [ -z "$simulated" ]; then
	echo "skipped: there is no simulated GPU; tools/nccl-without-gpu makes it of NCCL's source"
	exit 77
fi
# The short form has no pack, and the parts that see most: half a minute, and the build. SUMMAND_GPU_CHECK_LIMIT=570 is all of
# it, as on a GPU. By several loops, so that what fails is that of all of them.
if [ "$part" = rehearsal ]; then
	tree=$scratch/tree
	limit=${SUMMAND_GPU_CHECK_LIMIT:-}
	patience=2280 # four times what parts have on a GPU: other work may have the processors
	parts=(perf-2 graph lost-server loops fallbacks)
	mkdir -p "$tree/build/gpu-check"
	git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$tree"
	if [ -n "$limit" ]; then
		parts=(device perf-2 churn graph lost-server f64 loops fallbacks)
		says 0 "" tools/gpu/pack "$tree/build/gpu-check/pack" "$SUMMAND_BUILD"
		says 0 "what has run held" "$tree/tools/gpu-check" "--simulated=$(dirname "$simulated")" "--out=$scratch/out" \
			"--limit=$limit"
	else
		says 0 "all held" env SUMMAND_NCCL_LOOPS=4 "$tree/tools/gpu-check" "--simulated=$(dirname "$simulated")" "--out=$scratch/out" \
			"--limit=$patience" "${parts[@]/#/--part=}"
		[ "$(sed '1,2d;$d' "$scratch/out/verdict.txt" | wc -l)" = ${#parts[@]} ] ||
			fail "each part must have one line, got: $(cat "$scratch/out/verdict.txt")"
	fi
	for name in "${parts[@]}"; do
		grep -qE "^$name +held" "$scratch/out/verdict.txt" || fail "$name must have held, got: $(cat "$scratch/out/verdict.txt")"
	done
	[ "$(find "$scratch/out" -type f | wc -l)" -lt 8 ] || fail "there must be fewer than 8 files"
	[ -z "$(find "$scratch/out" -size +16M)" ] || fail "no file may be larger than 16 MiB"
	cat "$scratch/out/verdict.txt"
	[ "$failures" = 0 ]
	exit
fi

if ! timeout 120 tools/gpu/pack "$scratch/pack" "$SUMMAND_BUILD" >"$scratch/log" 2>&1; then
	echo "skipped: no sources to pack could be fetched: $(tail -n 1 "$scratch/log")"
	exit 77
fi
[ "$(du -sm "$scratch/pack" | cut -f 1)" -lt 64 ] || fail "the pack must be below 64 MB"
ls "$scratch"/pack/openssl_*.orig.tar.* >/dev/null || fail "the pack must have OpenSSL's source"
# To build OpenSSL takes minutes, and its archives are what a machine without perl takes; SUMMAND_GPU_CHECK_OPENSSL=source
# builds it all the same, as a machine with perl does.
if [ "${SUMMAND_GPU_CHECK_OPENSSL:-}" != source ] && [ -e "$scratch/pack/openssl-built" ]; then
	rm "$scratch"/pack/openssl_*.orig.tar.*
fi

apart=()
for way in "unshare -n" "unshare -rn"; do
	if $way true 2>/dev/null; then
		read -ra apart <<<"$way"
		break
	fi
done
[ "${#apart[@]}" != 0 ] || echo "networks cannot be taken away here: whether it builds without is not seen"
# Not optimized: what that makes is the plain tree's to test.
if ! CMAKE_BUILD_TYPE=None "${apart[@]}" tools/gpu/build "$scratch" >"$scratch/log" 2>&1; then
	# Where there is no NCCL the benchmark is all that may be missing.
	grep -q "nccl.h, libnccl and the CUDA runtime must be found" "$scratch/log" || {
		tail -n 30 "$scratch/log"
		fail "tools/gpu/build"
	}
fi
for file in bin/summand-reduction-server lib/libnccl-net-summand.so; do
	needed=$(ldd "$scratch/build/$file" 2>&1 | grep -vE 'linux-vdso|ld-linux|lib(c|m|dl|pthread)\.so')
	[ -z "$needed" ] || fail "$file: must need the C library alone, got $needed"
done
says 0 "summand-reduction-server" "$scratch/build/bin/summand-reduction-server" --version

# The OpenSSL that is built of the pack has little beside TLS 1.3. Between nodes, and with workers that have the machine's:
speaks_tls() {
	local ready server address

	says 0 "" env SUMMAND_BUILD="$scratch/build" tests/nccl_proxy/tls.sh "$SUMMAND_BUILD/tests/net_driver"
	[ "$tls" = 1 ] || return
	(umask 077 && echo open-sesame >"$scratch/token")
	exec {ready}< <(exec "$scratch/build/bin/summand-reduction-server" --listen=127.0.0.1:0 --memory-limit=64M --tls \
		"--token-file=$scratch/token" 2>"$scratch/log")
	server=$!
	read -r -t 60 -u "$ready" _ address || fail "summand-reduction-server --tls: $(<"$scratch/log")"
	says 0 "" env SUMMAND_TLS=1 SUMMAND_TOKEN_FILE="$scratch/token" "$SUMMAND_BUILD/bin/summand-perf" allreduce \
		--group=tls --nranks=1 --rank=0 "--servers=$address" --sizes=4,100K --iters=2
	kill "$server" 2>/dev/null
	exec {ready}<&-
}

speaks_tls

[ "$failures" = 0 ]
