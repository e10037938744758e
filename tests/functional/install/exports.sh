#!/usr/bin/env bash
# libsummand.so exports exactly the calls that summand.h declares.
#
#   exports.sh C-COMPILER
set -uo pipefail

library=${SUMMAND_BUILD:?must name the build directory}/lib/libsummand.so
header=${SUMMAND_SOURCE:?must name the source directory}/worker/summand.h
types=$SUMMAND_SOURCE/reduction_server/base/include

if ! command -v nm >/dev/null; then
	echo "skipped: no nm to list what the library exports"
	exit 77
fi
declared=$("$1" -E -P -I "$types" "$header" | grep -o '\bsmd_[a-z0-9_]* *(' | tr -d ' (' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort)
if [ -z "$declared" ] || ! diff <(echo "$declared") <(echo "$exported"); then
	echo "FAILED: summand.h (<) and libsummand.so (>) must agree"
	exit 1
fi
