#!/usr/bin/env bash
# The quick part of the tests on every Python that setup.cfg names, with the newest dependencies,
# and on the oldest Python with the oldest ones that setup.cfg allows:
#
#     tests/versions.sh                  # all of them
#     tests/versions.sh 3.13 oldest      # some
#
# Each gets a new environment, which is removed afterwards. Pythons are looked for on the PATH
# (python3.13) and among those of pyenv.
set -uo pipefail
cd "$(dirname "$0")/.."

pythons=$(sed -n 's/^ *Programming Language :: Python :: \(3\.[0-9]*\)$/\1/p' setup.cfg)
oldest=$(head -n 1 <<<"$pythons")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/versions.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
unset PYTHONPATH

python3 -m venv "$scratch/tool" && "$scratch/tool/bin/pip" install -q uv || exit 1
# The CPU build of torch, where its index can be reached: the default one has 5 GB.
if "$scratch/tool/bin/python" -c "import urllib.request as u; u.urlopen('https://download.pytorch.org/whl/cpu/torch/', timeout=10)" 2>/dev/null; then
    export UV_TORCH_BACKEND=cpu
fi

find_python() {
    local found
    # A shim of pyenv is on the PATH also where its Python is not chosen: ask it.
    for found in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        "$found" -c "" 2>/dev/null && { echo "$found"; return; }
    done
}

run() {
    local version=$1 resolution=highest python
    if [ "$version" = oldest ]; then
        version=$oldest resolution=lowest-direct
    fi
    python=$(find_python "$version")
    [ -n "$python" ] || { echo "there is no Python $version" >&2; return 1; }
    "$python" -m venv "$scratch/venv" || return 1
    "$scratch/tool/bin/uv" pip install -q --python "$scratch/venv/bin/python" \
        --resolution "$resolution" -e ".[test]" || return 1
    "$scratch/venv/bin/python" - <<'END'
import importlib.metadata as m, sys
names = ["torch", "numpy", "scipy", "scikit-learn", "pandas", "timm", "pyod", "dask", "pytest"]
print("Python", sys.version.split()[0], *(f"{name} {m.version(name)}" for name in names), sep=", ")
END
    # Without what is the same on every version: the documentation, the browser, the solvers on
    # tensors, large Dask tasks, and the doctests of the package.
    "$scratch/venv/bin/python" -m pytest -q tests --ignore tests/docs --ignore tests/solvers \
        --ignore-glob 'tests/test_dask*' --ignore-glob 'tests/triage/test_browser*'
}

failed=()
for version in ${*:-$pythons oldest}; do
    echo "== $version"
    run "$version" || failed+=("$version")
    rm -rf "$scratch/venv"
done
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
