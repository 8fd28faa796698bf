"""The method of the page Contributing is added as the page says, and passes every check."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from sklearn.utils.estimator_checks import check_estimator

import oslo_sklearn
from oslo_sklearn import FewShotOpenSetSplit, _public, checks, evaluate

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "contributing.rst"


@pytest.fixture(scope="module")
def code() -> str:
    block = re.search(
        r"\.\. code-block:: python\n   :name: toy-method\n\n((?:(?:    .*)?\n)+)", PAGE.read_text()
    )
    return textwrap.dedent(block[1]).strip() + "\n"


@pytest.fixture(scope="module")
def toy(code, tmp_path_factory):
    """The class, out of a file of its own, exported by the package as the page says."""
    path = tmp_path_factory.mktemp("toy") / "toy_method_of_the_docs.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        for names in (_public, oslo_sklearn):  # the package keeps what it has been asked for
            patch.setattr(names, "NearestMean", module.NearestMean, raising=False)
        yield module.NearestMean
    del sys.modules[path.stem]


def test_it_is_short(code):
    assert len(code.splitlines()) < 40


def test_it_is_found(toy):
    assert ("NearestMean", toy) in oslo_sklearn.all_estimators()


def test_sklearn_checks(toy, monkeypatch):
    import test_common

    # The checks ask whether torch was built for CUDA, and mean whether there is a GPU.
    monkeypatch.setattr(torch.backends.cuda, "is_built", torch.cuda.is_available)
    for estimator in (toy(), toy(center="task"), test_common.at_fit(toy())):
        expected = test_common.deferred_failures(estimator)
        results = check_estimator(
            estimator, expected_failed_checks=expected, on_fail=None, on_skip=None
        )
        failed = [result["check_name"] for result in results if result["status"] == "failed"]
        assert not failed
        assert sum(result["status"] == "passed" for result in results) > 40


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_contract(toy, check):
    check(toy())


def test_docstring(toy):
    """It passes the tests of docstrings, and its example runs."""
    pytest.importorskip("numpydoc")
    from numpydoc.docscrape import ClassDoc

    doc = ClassDoc(toy)
    assert [field.name for field in doc["Parameters"]] == list(inspect.signature(toy).parameters)
    assert all(doc[section] for section in ("Summary", "Attributes", "Examples"))
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for example in finder.find(toy, globs={"NearestMean": toy}):
        runner.run(example)
    assert runner.tries > 0
    assert runner.failures == 0


def test_linters_pass(toy):
    ruff = [sys.executable, "-m", "ruff"]
    config = ["--config", str(DOCS.parent / "pyproject.toml"), "--no-cache"]
    for command in (["check"], ["format", "--check"]):
        words = [*ruff, *command, *config, inspect.getsourcefile(toy)]
        found = subprocess.run(words, capture_output=True, text=True)
        assert found.returncode == 0, found.stdout + found.stderr


def test_it_is_in_the_table_of_methods(toy, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import generate

    row = generate._describe("NearestMean", toy)
    assert row["family"] == "inductive"
    assert not any(row[key] for key in ("needs_query", "needs_base", "batch_dependent"))
    assert "oslo_sklearn.NearestMean" in generate.api_page()


def test_it_can_be_evaluated(toy, task):
    split = FewShotOpenSetSplit(n_way=3, n_query=5, n_open=2, n_tasks=6)
    rows = evaluate(toy(), task.query_X, task.query_y, split, progress=False)
    assert rows["auroc"].mean() > 0.7
