#!/usr/bin/env bash
# circles.sh OBJECT:OBJECT...
# The files of a folder call each other in one direction only: tsort finds an order for them. A transport's table of
# operations, which refers to all of its files by address, does not count. cuda.c, cuda_cards.c and cuda_word.c of
# libsummand are one thing in three files: the driver, what it says of its cards, and how it says what is done.
set -euo pipefail
if ! command -v nm >/dev/null; then
	echo "skipped: no nm to list what objects define and use"
	exit 77
fi
status=0
IFS=: read -ra objects <<<"$1"
mapfile -t folders < <(printf '%s\n' "${objects[@]%/*}" | sort -u)
for folder in "${folders[@]}"; do
	edges=$(for object in "${objects[@]}"; do
		[ "${object%/*}" = "$folder" ] || continue
		nm "$object" | awk -v object="$(basename "$object" .c.o)" '
			BEGIN { sub(/^cuda_(cards|word)$/, "cuda", object) }
			$3 ~ /^smd_/ && $3 !~ /^smd_transport_[a-z]*$/ { print "defines", $3, object }
			$1 == "U" && $2 ~ /^smd_/ && $2 !~ /^smd_transport_[a-z]*$/ { print "uses", $2, object }'
	done | awk '
		$1 == "defines" { definer[$2] = $3 }
		$1 == "uses" { user[++n] = $3; symbol[n] = $2 }
		END {
			for (i = 1; i <= n; i++)
				if (symbol[i] in definer && user[i] != definer[symbol[i]]) print user[i], definer[symbol[i]]
		}' | sort -u)
	[ -n "$edges" ] || { [ "$(basename "$folder")" = testing ] || { echo "$folder: no calls found"; status=1; }; continue; }
	if ! tsort <<<"$edges" >/dev/null; then
		echo "$folder: files call each other in a circle:"
		echo "$edges" | sed 's/^/  /'
		status=1
	fi
done
exit $status
