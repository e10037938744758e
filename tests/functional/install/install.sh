#!/usr/bin/env bash
# Installs into an empty folder and uses what is there: the programs, their data, and the library from
# a program that knows nothing but `pkg-config summand`.
#
#   install.sh C-COMPILER
set -uo pipefail

compiler=$1
build=${SUMMAND_BUILD:?must name the build directory}
source=${SUMMAND_SOURCE:?must name the source directory}
root=$(mktemp -d)
server=
failures=0

clean_up() {
	if [ -n "$server" ]; then
		kill "$server"
		wait "$server"
	fi
	rm -rf "$root"
}
trap clean_up EXIT

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
	[ "$result" = "$code" ] || fail "$*: must exit with $code, got $result: $got"
	[[ $got == *"$text"* ]] || fail "$*: must say \"$text\", got: $got"
}

unset CLUSTER_SPEC "${!SUMMAND_@}" "${!PKG_CONFIG_@}"
cmake_says=$(DESTDIR=$root/ cmake --install "$build" 2>&1) || {
	echo "$cmake_says"
	exit 1
}
page=$(find "$root" -name summand.1)
prefix=${page%/share/man/man1/summand.1}
library=$(find "$prefix" -name libsummand.so)
if [ -z "$page" ] || [ -z "$library" ]; then
	find "$root"
	fail "summand.1 and libsummand.so must be installed"
	exit 1
fi
folder=${library%/libsummand.so}

for file in bin/summand bin/summand-agent bin/summand-digits bin/summand-digits-ddp \
	bin/summand-mpi bin/summand-perf bin/summand-reduction-server include/summand.h include/summand_types.h share/man/man1/summand-agent.1 \
	share/man/man1/summand-mpi.1 share/man/man1/summand-perf.1 share/man/man1/summand-reduction-server.1 share/man/man5/summand-job.5 \
	share/bash-completion/completions/summand share/zsh/site-functions/_summand share/fish/vendor_completions.d/summand.fish \
	lib/systemd/system/summand-reduction-server.service share/man/man3/libsummand.3 share/summand/machine_types.json share/summand/digits.txt \
	share/summand/jobs/ddp.json share/summand/python/summand_ddp.py share/summand/python/summand/ddp.py share/summand/python/pyproject.toml; do
	[ -e "$prefix/$file" ] || fail "$file must be installed"
done
for file in "$folder/libsummand.so.0" "$folder/libnccl-net-summand.so" "$folder/librccl-net-summand.so" "$folder/pkgconfig/summand.pc"; do
	[ -e "$file" ] || fail "$file must be installed"
done

# The programs, from a folder that has nothing to do with them.
cd "$root" || exit 1
job=$source/specs/jobs/digits.json
says 0 "is valid" "$prefix/bin/summand" custom-jobs validate "$job"
says 0 "n1-highcpu-16" "$prefix/bin/summand" custom-jobs plan "$job"
says 0 "OK" "$prefix/bin/summand-perf" allreduce --local=2 --local-servers=1 --sizes=4K \
	--iters=2 --warmup=1
mv "$prefix/share/summand/machine_types.json" "$root"
says 1 "share/summand/machine_types.json: No such file" "$prefix/bin/summand" custom-jobs plan "$job"
[ "$failures" = 0 ] || exit 1

# The PyTorch module, which must find the library that it was installed with: a server that is not
# there is named by the library alone.
python=/usr/bin/python3
if "$python" -c "import torch" 2>/dev/null; then
	says 0 "summand" "$python" "$prefix/bin/summand-digits-ddp" --help
	says 0 "$folder/libsummand.so.0" env PYTHONPATH="$prefix/share/summand/python" "$python" -c \
		"import summand_ddp; print(summand_ddp._lib()._name)"
	says 1 "127.0.0.1:1 could not be reached" env PYTHONPATH="$prefix/share/summand/python" \
		SUMMAND_REDUCTION_SERVERS=127.0.0.1:1 SUMMAND_CONNECT_TIMEOUT=1 "$python" -c \
		"import summand_ddp; summand_ddp.Context()"
	[ "$failures" = 0 ] || exit 1
else
	echo "the PyTorch module is left out: it needs torch"
fi

# The library: what libsummand.3 shows must compile, and do what it says.
if ! command -v pkg-config >/dev/null; then
	echo "skipped: no pkg-config to find the library with"
	exit 77
fi
sed -n '/^#include <stdio.h>/,/^\.fi/p' "$prefix/share/man/man3/libsummand.3" |
	sed -e '/^\.fi/d' -e 's/\\e/\\/g' >example.c
export PKG_CONFIG_PATH=$folder/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
read -ra flags < <(pkg-config --cflags --libs summand)
"$compiler" -std=c11 -Wall -Wextra -Werror -pedantic -o example example.c "${flags[@]}" ||
	fail "the example of libsummand.3 must compile with ${flags[*]}"
export LD_LIBRARY_PATH=$folder
says 1 "no reduction servers" ./example

"$prefix/bin/summand-reduction-server" --listen=127.0.0.1:0 >ready 2>log &
server=$!
for _ in $(seq 100); do
	[ -s ready ] && break
	sleep 0.1
done
read -r _ address <ready
export SUMMAND_REDUCTION_SERVERS=$address
./example 1 >other 2>&1 &
second=$!
says 0 "2 4 6 8" ./example 0
wait "$second" || fail "the second rank: $(cat other)"
[ "$(cat other)" = "2 4 6 8" ] || fail "the second rank must say 2 4 6 8, got $(cat other)"

[ "$failures" = 0 ]
