#!/usr/bin/env bash
# circles.sh OBJECT_FOLDER
# The files of a transport call each other in one direction only: tsort finds an order for them. The table of operations,
# which refers to all of them by address, does not count.
set -euo pipefail
if ! command -v nm >/dev/null; then
	echo "skipped: no nm to list what objects define and use"
	exit 77
fi
status=0
for folder in "$1"/tcp "$1"/rdma "$1"/testing; do
	[ -d "$folder" ] || continue
	edges=$(for object in "$folder"/*.o; do
		nm "$object" | awk -v object="$(basename "$object" .c.o)" '
			$3 ~ /^smd_/ && $3 !~ /^smd_transport_[a-z]*$/ { print "defines", $3, object }
			$1 == "U" && $2 ~ /^smd_/ && $2 !~ /^smd_transport_[a-z]*$/ { print "uses", $2, object }'
	done | awk '
		$1 == "defines" { definer[$2] = $3 }
		$1 == "uses" { user[++n] = $3; symbol[n] = $2 }
		END { for (i = 1; i <= n; i++) if (symbol[i] in definer) print user[i], definer[symbol[i]] }' | sort -u)
	[ -n "$edges" ] || { [ "$(basename "$folder")" = testing ] || { echo "$folder: no calls found"; status=1; }; continue; }
	if ! tsort <<<"$edges" >/dev/null; then
		echo "$folder: files call each other in a circle:"
		echo "$edges" | sed 's/^/  /'
		status=1
	fi
done
exit $status
