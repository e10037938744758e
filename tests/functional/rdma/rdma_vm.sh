#!/usr/bin/env bash
# tools/rdma-vm: the command's output and exit code come back as they were, verbs work in the machine, and
# whatever way it ends, it ends with a clear word. Few starts: each takes seconds.
set -uo pipefail

vm=${SUMMAND_SOURCE:?must name the source directory}/tools/rdma-vm
build=${SUMMAND_BUILD:?must name the build directory}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

# run CODE ARGUMENT...: what the command said is in the files out and err.
run() {
	local code=$1 result

	shift
	"$vm" "$@" >"$scratch/out" 2>"$scratch/err"
	result=$?
	if [ "$result" = 77 ] && [ "$code" != 77 ]; then
		echo "skipped: $(cat "$scratch/err")"
		exit 77
	fi
	[ "$result" = "$code" ] || fail "$*: must exit with $code, got $result: $(tail -n 30 "$scratch/out" "$scratch/err")"
}

says() {
	grep -qE -- "$2" "$scratch/$1" || fail "must say '$2', got: $(cat "$scratch/$1")"
}

# What starts no machine.
run 0 --help
says out '--timeout=SECONDS'
for words in "" "--" "--bogus -- true" "--cpus=0 -- true" "--memory=2G -- true" "--add=/no/such -- true" \
	"--program=no-such -- true" "-- ./no-such" "--env=A -- true"; do
	# shellcheck disable=SC2086
	run 2 $words
	says err '^rdma-vm: .*--help$'
done

mkdir "$scratch/bin"
for program in bash realpath; do
	ln -s "$(type -P "$program")" "$scratch/bin"
done
PATH=$scratch/bin run 77 -- true
says err 'cannot make a machine here: must have qemu-system-x86_64'

# Verbs, over the cable and within a device, and again when the cable was down; and a program of this build.
cat >"$scratch/verbs" <<'SCRIPT'
set -eu

fail() {
	echo "$1"
	cat /tmp/server /tmp/client
	rdma resource show qp
	exit 1
}

# serve PROGRAM ARGUMENT...: in the background, until it listens.
serve() {
	timeout 40 "$@" >/tmp/server 2>&1 &
	server=$!
	until rdma resource show cm_id | grep -q LISTEN; do
		kill -0 "$server" || fail "$1 must listen"
		sleep 0.1
	done
}

ping_over() {
	serve rping -s -a "$1" -C 2
	timeout 40 rping -c -v -a "$1" -C 2
	wait "$server"
}

# write_over ADDRESS ITS_DEVICE OTHER_DEVICE: how much of the 2 MiB each way the cable carried. On a busy
# machine perftest sometimes finds that it cannot tell the processor's frequency, after all is done.
write_over() {
	local before sent=/sys/class/net/v0/statistics/tx_bytes

	for _ in 1 2 3 4 5; do
		serve ib_write_bw -R -b -s 65536 -n 32 -d "$2"
		before=$(cat "$sent")
		if timeout 40 ib_write_bw -R -b -s 65536 -n 32 -d "$3" "$1" >/tmp/client 2>&1; then
			break
		fi
		grep -q "Can't produce a report" /tmp/client || fail "ib_write_bw must succeed"
		wait "$server" || :
	done
	wait "$server" || :
	cat /tmp/client
	echo "$1: over the cable: $((($(cat "$sent") - before) >> 20)) MiB"
}

ibv_devinfo
ping_over "$RXE_A"
write_over "$RXE_B" rxe1 rxe0
write_over "$RXE_LOOP" rxe0 rxe0
ip link set v0 down
rdma-network
ping_over "$RXE_B"
"$1" --help
exit 3
SCRIPT
program=$build/bin/summand-perf
run 3 --add="$scratch/verbs" --program="$program" -- bash "$scratch/verbs" "$program"
says out 'hca_id:.*rxe0'
says out 'hca_id:.*rxe1'
says out 'active_mtu:.*4096'
[ "$(grep -c '^ping data: rdma-ping' "$scratch/out")" = 4 ] || fail "must ping 4 times, got: $(cat "$scratch/out")"
[ "$(grep -cE '^ 65536 +32 +[0-9]*[1-9]' "$scratch/out")" = 2 ] || fail "must write twice, got: $(cat "$scratch/out")"
says out '^10.77.0.2: over the cable: [2-5] MiB'
says out '^10.77.1.1: over the cable: 0 MiB'
says out '^Usage: summand-perf'

# Output byte by byte, while the kernel speaks on the console, and from a command that leaves a process
# which holds it open; variables and arguments as they were; no input; the folder of the caller.
for byte in {0..255}; do
	# shellcheck disable=SC2059
	printf "\\x$(printf %x "$byte")"
done >"$scratch/bytes"
head -c 1000000 /dev/urandom >"$scratch/noise"
mkdir "$scratch/folder"
ln -s "$scratch" "$scratch/folder/link"
cat >"$scratch/speak" <<'SCRIPT'
#!/bin/bash
sleep 1000 &
echo "<0>the kernel speaks" >/dev/kmsg
cat "$1/bytes" "$1/folder/link/noise"
cat "$1/bytes" >/dev/stderr
printf '%s|' "$PWD" "$VALUE" "$(cat)" "${@:2}"
kill -9 $$
SCRIPT
chmod +x "$scratch/speak"
words=("two words" "" "it's \$HOME" $'a\nb' '*')
cd "$scratch/folder" || exit
run 137 --add="$scratch/bytes" --add="$scratch/noise" --add=link "--env=VALUE=${words[2]}" -- ../speak "$scratch" \
	"${words[@]}"
{
	cat "$scratch/bytes" "$scratch/noise"
	printf '%s|' "$scratch/folder" "${words[2]}" "" "${words[@]}"
} | cmp - "$scratch/out" || fail "stdout must come back as it was"
cmp "$scratch/bytes" "$scratch/err" || fail "stderr must come back as it was"

# Ends of other kinds: of the machine, until when output is live; too late; by a signal to this side.
mkfifo "$scratch/live"
"$vm" -- bash -c 'echo before; sleep 3; echo c >/proc/sysrq-trigger' >"$scratch/live" 2>"$scratch/err" &
tool=$!
read -r line <"$scratch/live"
[ "$line" = before ] || fail "what was said before the end must be there, got '$line'"
kill -0 "$tool" || fail "output must be live"
wait "$tool"
result=$?
[ "$result" = 125 ] || fail "a machine that has ended must exit with 125, got $result"
says err '^rdma-vm: the machine ended without the command'
says err 'Kernel panic'
run 124 --timeout=1 -- true
says err '^rdma-vm: the command must end within 1 s'

# A start that stands still, as an emulated kernel's does now and then: the machine is started again, twice at most.
mkdir "$scratch/slow"
cat >"$scratch/slow/qemu-system-x86_64" <<SCRIPT
#!/bin/sh
echo start >>"$scratch/starts"
[ "\$(wc -l <"$scratch/starts")" -lt "\$WHOLE_START" ] || exec "$(type -P qemu-system-x86_64)" "\$@"
sleep 1000
SCRIPT
chmod +x "$scratch/slow/qemu-system-x86_64"
WHOLE_START=2 PATH=$scratch/slow:$PATH run 5 --start=20 --timeout=300 -- bash -c 'echo begun once; exit 5'
says out '^begun once$'
says err '^rdma-vm: the command had not begun within 20 s, and the machine is started again'
[ "$(wc -l <"$scratch/starts")" -ge 2 ] || fail "must be started again, got: $(wc -l <"$scratch/starts")"
rm "$scratch/starts"
WHOLE_START=9 PATH=$scratch/slow:$PATH run 124 --start=1 --timeout=3 -- true
[ "$(wc -l <"$scratch/starts")" = 3 ] || fail "must be started three times, got: $(wc -l <"$scratch/starts")"
says err '^rdma-vm: the command must end within 3 s'

# Nothing is left of a machine whose tool is ended.
machine_of() {
	local timeout

	until timeout=$(pgrep -P "$1" -x timeout) && pgrep -P "$timeout" -x qemu-system-x86; do
		kill -0 "$1" 2>/dev/null || return
		sleep 0.1
	done
}

ended() {
	for _ in {1..300}; do
		kill -0 "$1" 2>/dev/null || return 0
		sleep 0.1
	done
	return 1
}

mkdir "$scratch/tmp"
TMPDIR=$scratch/tmp "$vm" -- sleep 1000 &
tool=$!
machine=$(machine_of "$tool")
kill -TERM "$tool"
wait "$tool"
result=$?
[ "$result" = 143 ] || fail "SIGTERM must end it, got exit code $result"
ended "$machine" || fail "the machine must end with SIGTERM to its tool"
[ -z "$(ls "$scratch/tmp")" ] || fail "nothing must be left, got $(ls "$scratch/tmp")"

TMPDIR=$scratch/tmp "$vm" -- sleep 1000 &
tool=$!
machine=$(machine_of "$tool")
kill -KILL "$tool"
wait "$tool" 2>/dev/null
ended "$machine" || fail "the machine must end with its tool"

[ "$failures" = 0 ]
