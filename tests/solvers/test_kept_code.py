"""What is said to be compiled is what numba then finds on disk; faults of its files do no harm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

import oslo_sklearn.solvers._numba as of_package

HELPER = "from ._numba import compiled\n\n@compiled\ndef add(x):\n    return x + 1\n"
LOOP = (
    "from ._helper_numba import add\nfrom ._numba import compiled\n\n"
    "@compiled\ndef loop(x):\n    return 10 * add(x)\n"
)
ASK = """
from kernels._loop_numba import loop
from kernels._numba import is_compiled
said = is_compiled(loop)
value = loop(1)
stats = getattr(loop, "stats", None)
print(said, sum(stats.cache_hits.values()) if stats else 0, value)
"""


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """A package of two small kernels, whose code is on disk."""
    folder = tmp_path_factory.mktemp("compiled") / "kernels"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "_helper_numba.py").write_text(HELPER)
    (folder / "_loop_numba.py").write_text(LOOP)
    shutil.copy(of_package.__file__, folder / "_numba.py")
    assert ask(folder) == (False, 0, 20)
    assert ask(folder) == (True, 1, 20)
    return folder


@pytest.fixture
def kernels(compiled_once, tmp_path):
    """A copy; files keep their times."""
    return Path(shutil.copytree(compiled_once, tmp_path / "kernels"))


def ask(folder, first="", **environment):
    """In a new process: what is said, how often numba found code, and what comes out."""
    done = subprocess.run(
        [sys.executable, "-c", first + ASK],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder.parent), **environment},
    )
    assert done.returncode == 0, done.stderr
    said, n_found, value = done.stdout.split()
    assert int(n_found) == (said == "True"), "numba did something else"
    return said == "True", int(n_found), int(value)


def kept(folder, kind):
    """The index (nbi) or the code (nbc) of the loop."""
    (file,) = (folder / "__pycache__").glob(f"_loop_numba.loop-*.{kind}")
    return file


def test_another_time_of_the_source(kernels):
    """As after a merge and its revert: same words, new time. Versions of numba differ in this."""
    source = kernels / "_loop_numba.py"
    os.utime(source, (2_000_000_000, 2_000_000_000))
    assert ask(kernels)[2] == 20
    os.utime(source, (1_000_000_000, 1_000_000_000))
    assert ask(kernels)[2] == 20


def test_a_changed_source_that_looks_old(kernels):
    source = kernels / "_loop_numba.py"
    before = source.stat()
    source.write_text(LOOP.replace("10 *", "1000 *"))
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ask(kernels) == (False, 0, 2000)


def test_a_function_in_another_file_changed(kernels):
    """Numba itself would go on with the old one."""
    (kernels / "_helper_numba.py").write_text(HELPER.replace("+ 1", "+ 2"))
    assert ask(kernels) == (False, 0, 30)
    assert ask(kernels) == (True, 1, 30)


def test_code_of_another_processor(kernels):
    assert ask(kernels, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == (False, 0, 20)


@pytest.mark.parametrize(("kind", "keep"), [("nbi", 0), ("nbi", 30), ("nbc", 0), ("nbc", 1000)])
def test_damaged_files_are_replaced(kernels, kind, keep):
    file = kept(kernels, kind)
    file.write_bytes(file.read_bytes()[:keep])
    assert ask(kernels) == (False, 0, 20)
    assert ask(kernels) == (True, 1, 20)


def test_a_missing_file(kernels):
    kept(kernels, "nbc").unlink()
    assert ask(kernels) == (False, 0, 20)
    assert ask(kernels) == (True, 1, 20)


def test_numba_is_switched_off(kernels):
    assert ask(kernels, NUMBA_DISABLE_JIT="1") == (False, 0, 20)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files")
def test_an_index_that_was_written_before_the_disk_was_full(kernels):
    """It must not name the code of other sources."""
    (kernels / "_helper_numba.py").write_text(HELPER.replace("+ 1", "+ 2"))
    n_bytes = kept(kernels, "nbi").stat().st_size + 200
    assert n_bytes < kept(kernels, "nbc").stat().st_size
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({n_bytes}, {n_bytes}))\n"
    assert ask(kernels, limit) == (False, 0, 30)
    assert ask(kernels) == (False, 0, 30)
    assert ask(kernels) == (True, 1, 30)


def test_no_two_saves_share_a_file(kernels):
    """An index whose code could not be written would name that of another signature."""
    index = kept(kernels, "nbi")
    before = kept(kernels, "nbc")
    index.unlink()
    assert ask(kernels) == (False, 0, 20)
    assert len({before, *before.parent.glob("_loop_numba.loop-*.nbc")}) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files")
def test_a_full_disk(kernels):
    """Nothing is kept, and the answer is there."""
    shutil.rmtree(kernels / "__pycache__")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    (kernels / "_loop_numba.py").write_text(limit + LOOP)
    assert ask(kernels, PYTHONDONTWRITEBYTECODE="1") == (False, 0, 20)
