#!/bin/sh
# Run the tests on every supported Python that is found on this machine.
set -eu

# A name on PATH may be a shim for a version that is not there, so each candidate is tried.
find_python() {
	for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
		if "$candidate" --version >/dev/null 2>&1; then
			echo "$candidate"
			return
		fi
	done
}

pinned=${CONSTRAINTS:+--constraint $CONSTRAINTS}
found=""
for version in 3.11 3.12 3.13 3.14; do
	python=$(find_python "$version")
	[ -n "$python" ] || continue
	found="$found $version"
	folder=.venvs/$version
	echo "== Python $version"
	[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
	# shellcheck disable=SC2086 # two words, or none
	"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.3' $pinned
	"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --editable . --group test $pinned
	"$folder/bin/python" -m pytest -q -n auto
done
[ -n "$found" ] || { echo "no Python from 3.11 on was found" >&2; exit 1; }
echo "passed on Python$found"
