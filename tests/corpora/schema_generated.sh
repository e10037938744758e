#!/usr/bin/env bash
# The JSON Schemas in specs/schema are what the tables of the front ends say, and nothing else is there.

fresh=$(mktemp -d) || exit 1
trap 'rm -rf "$fresh"' EXIT

"${SUMMAND_BUILD:?must name the build directory}/tests/write_schemas" "$fresh" || exit 1
if ! diff -ru "${SUMMAND_SOURCE:?must name the source directory}/specs/schema" "$fresh"; then
	echo "FAILED: specs/schema must be what the tables say: run build/tests/write_schemas specs/schema"
	exit 1
fi
