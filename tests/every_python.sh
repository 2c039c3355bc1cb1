#!/bin/sh
# Run the tests on every supported Python that is found on this machine.
set -eu
found=0
for version in 3.11 3.12 3.13 3.14; do
	python=$(command -v "python$version" || ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python 2>/dev/null | tail -n 1 || true)
	[ -n "$python" ] && "$python" --version >/dev/null 2>&1 || continue
	found=$((found + 1))
	folder=.venvs/$version
	echo "== Python $version"
	[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
	"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --editable . --group test
	"$folder/bin/python" -m pytest -q -n auto
done
[ "$found" -gt 0 ] || { echo "no Python from 3.11 on was found" >&2; exit 1; }
echo "$found versions of Python passed"
