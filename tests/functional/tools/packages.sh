#!/usr/bin/env bash
# tools/packages has a purpose for each package and is where the README sends its reader;
# tools/install-packages installs what is missing and only that. dpkg-query and apt-get are played by scripts of this test.
set -uo pipefail

source=${SUMMAND_SOURCE:?must name the source directory}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

rows=$(grep -v -e '^#' -e '^$' "$source/tools/packages")
wrong=$(grep -vE '^(build|test|all|fuzz) +[a-z0-9.+-]+ +[^ ].*' <<<"$rows")
[ -z "$wrong" ] || fail "each line must have a use, a package and its purpose, got: $wrong"
twice=$(awk '{ print $2 }' <<<"$rows" | sort | uniq -d)
[ -z "$twice" ] || fail "named twice: $twice"
grep -qF '`tools/packages`' "$source/README.md" || fail "README.md must name tools/packages"

# A machine on which the packages $installed are there; apt-get writes down what it is asked.
mkdir "$scratch/bin"
for program in bash awk env id mktemp rm tail dirname; do
	ln -s "$(command -v "$program")" "$scratch/bin/$program"
done
cat >"$scratch/bin/dpkg-query" <<'SCRIPT'
#!/usr/bin/env bash
for package in $installed; do
	[ "$package" != "${*: -1}" ] || printf installed
done
SCRIPT
cat >"$scratch/apt-get" <<'SCRIPT'
#!/usr/bin/env bash
echo "$DEBIAN_FRONTEND $*" >>"$asked"
[ -z "${broken:-}" ] || { echo "no network"; exit 100; }
SCRIPT
# shellcheck disable=SC2016
printf '#!/usr/bin/env bash\necho "$*" >>"$asked.sudo"\nexec "$@"\n' >"$scratch/sudo"
chmod +x "$scratch/bin/dpkg-query" "$scratch/apt-get" "$scratch/sudo"
export installed asked=$scratch/asked

# install EXIT_CODE USE...: what was printed is in $got, what apt-get was asked in $asked.
install() {
	local code=$1 result

	shift
	: >"$asked"
	got=$(PATH=$scratch/bin TMPDIR=$scratch "$source/tools/install-packages" "$@" 2>&1)
	result=$?
	[ "$result" = "$code" ] || fail "must exit with $code, got $result: $got"
}

# No apt-get: a hint, and the build may try.
installed="gcc make"
install 0 build
[[ $got == *cmake*libyaml-dev* && $got != *gcc* ]] || fail "must name what is missing, got: $got"

cp "$scratch/apt-get" "$scratch/sudo" "$scratch/bin"
install 0 build
first=$(sed -n 1p "$asked")
second=$(sed -n 2p "$asked")
[[ $first == noninteractive*update ]] || fail "must update first, got: $first"
[[ $second == noninteractive*--no-install-recommends*cmake*libyaml-dev ]] ||
	fail "must install cmake and others, got: $second"
[[ $second != *gcc* && $second != *cmocka* ]] || fail "must install nothing else, got: $second"

# Not root: through sudo, or not at all.
rm "$scratch/bin/id"
printf '#!/usr/bin/env bash\necho 1000\n' >"$scratch/bin/id"
chmod +x "$scratch/bin/id"
install 0 build
[ -s "$asked.sudo" ] || fail "must use sudo, got: $(cat "$asked")"
rm "$scratch/bin/sudo"
install 1 build
[[ $got == *"as root"*libyaml-dev* && ! -s $asked ]] || fail "must say what root has to do, got: $got"
cp "$scratch/sudo" "$scratch/bin"

broken=yes install 1 build
[[ $got == *"no network"* ]] || fail "must show what apt-get said, got: $got"

installed=$(awk '{ print $2 }' <<<"$rows")
install 0 build test all
[ ! -s "$asked" ] || fail "must ask for nothing, got: $(cat "$asked")"
[ -z "$got" ] || fail "must say nothing, got: $got"

[ "$failures" = 0 ]
