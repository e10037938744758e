#!/usr/bin/env bash
# shipped.sh TEST_PROGRAM ON|OFF
# What is installed has the transports of tests only where SUMMAND_FAULT is ON; programs of tests have them always.
set -euo pipefail
traces=(SUMMAND_FAULT "loopback: a name must have")

has_all() {
	local trace
	for trace in "${traces[@]}"; do
		grep -qaF "$trace" "$1" || return 1
	done
}

has_all "$1" || { echo "$1 must have the transports of tests, or this test looks for the wrong traces"; exit 1; }
status=0
seen=0
for file in "$SUMMAND_BUILD"/bin/* "$SUMMAND_BUILD"/lib/*.so*; do
	if [ ! -f "$file" ] || [ "$(head -c4 "$file" | tail -c3)" != ELF ]; then
		continue
	fi
	seen=$((seen + 1))
	for trace in "${traces[@]}"; do
		if [ "$2" = OFF ] && grep -qaF "$trace" "$file"; then
			echo "$file has a transport of tests: \"$trace\""
			status=1
		fi
	done
done
[ "$seen" -ge 5 ] || { echo "at least 5 programs and libraries must be there, got $seen"; exit 1; }
if [ "$2" = ON ] && ! has_all "$SUMMAND_BUILD/bin/summand-reduction-server"; then
	echo "with SUMMAND_FAULT=ON the server must have the transports of tests"
	status=1
fi
exit $status
