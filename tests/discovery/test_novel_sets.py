"""What is promised of groups, suggestions and known negatives, on novel classes of real features.

Minutes: ``python -m pytest -n 0 -m slow tests/discovery``.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from helpers import DATA

from oslo_sklearn import AdaptiveOSLO, FewShotOpenSetSplit, NovelClassDiscovery
from oslo_sklearn.evaluation import label_and_refit
from oslo_sklearn.metrics import auroc, discovery_accuracy

SETS = ("cub_lite0", "grocery_lite0", "banking77_minilm", "flowers_lite0")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::oslo_sklearn.exceptions.TaskWarning"),
    pytest.mark.skipif(not DATA.exists(), reason=f"no real data at {DATA}"),
]


def novel_tasks(name, n_tasks, n_shot=5):
    """Features, labels, and tasks with 2 to 8 unknown classes (7 of flowers) of 15 rows."""
    with np.load(DATA / f"{name}.npz") as data:
        novel = data["split"] == "novel"
        X, y = data["X"][novel].astype(np.float32), data["y"][novel]
    n_numbers = 6 if name == "flowers_lite0" else 7
    tasks = []
    for seed in range(n_tasks):
        split = FewShotOpenSetSplit(
            n_shot=n_shot, n_open=2 + seed % n_numbers, n_tasks=1, random_state=seed
        )
        tasks.extend(split.split(X, y))
    return X, y, tasks


@pytest.mark.parametrize(
    ("name", "least"), zip(SETS, [0.8, 0.8, 0.88, 0.88], strict=True), ids=SETS
)
def test_groups(name, least):
    X, y, tasks = novel_tasks(name, 100)
    novel, known, alone, errors = [], [], [], []
    for support, query in tasks:
        task = X[support], y[support], X[query]
        found = NovelClassDiscovery(random_state=0).fit(*task)
        accuracy = discovery_accuracy(y[query], found.labels_, found.groups_, found.classes_)
        once = AdaptiveOSLO().fit(*task).transduce(X[query])
        groups = np.where(once.is_outlier, 0, -1)
        alone.append(discovery_accuracy(y[query], once.labels, groups, found.classes_).known)
        novel.append(accuracy.novel)
        known.append(accuracy.known)
        errors.append(abs(found.n_groups_ - len(set(y[query]) - set(y[support]))))
    print(f"{name}: novel {np.mean(novel):.3f}, groups off by {np.mean(errors):.2f}, ", end="")
    print(f"known {np.mean(known):.3f}, of AdaptiveOSLO alone {np.mean(alone):.3f}")
    assert np.mean(novel) >= least
    assert np.mean(errors) <= 1.0
    assert np.mean(known) >= np.mean(alone)


@pytest.mark.parametrize("n_shot", [1, 5])
def test_ten_suggested_labels(n_shot):
    """Rows with the right name, after ten rows of the query got theirs."""
    means = []
    for name in SETS:
        rows = label_and_refit(*novel_tasks(name, 14, n_shot), n_labels=[10])
        means.append(rows.groupby("method")["accuracy"].mean())
        print(name, means[-1].round(3).to_dict())
    mean = sum(means) / len(means)
    assert mean["suggested"] >= mean["random"] + 0.06
    assert mean["suggested"] >= mean["least confident"] + 0.03


@pytest.mark.parametrize(
    "estimator",
    [AdaptiveOSLO(outlier_label="none"), AdaptiveOSLO(n_looks=3, outlier_label="none")],
    ids=["once", "three looks"],
)
@pytest.mark.parametrize("name", SETS)
def test_five_negatives_of_one_class(name, estimator):
    X, y, tasks = novel_tasks(name, 28)
    rejected, before, after = [], [], []
    for support, query in tasks:
        unknown = np.setdiff1d(y[query], y[support])
        marked = query[y[query] == unknown[0]][:5]
        rest = np.setdiff1d(query, marked)
        is_like = y[rest] == unknown[0]
        is_new = ~np.isin(y[rest], y[support])
        labels = y[support].astype(object)
        plain = NovelClassDiscovery(estimator).fit(X[support], labels, X[rest])
        joined = np.concatenate([support, marked])
        labels = np.concatenate([labels, ["none"] * 5])
        again = NovelClassDiscovery(estimator).fit(X[joined], labels, X[rest])
        rejected.append(again.is_outlier_[is_like].mean())
        for scores, found in ((before, plain), (after, again)):
            scores.append(auroc(is_new[~is_like], found.outlierness_[~is_like]))
    print(
        f"{name}: {np.mean(rejected):.3f} of the rows like them rejected; elsewhere AUROC ", end=""
    )
    print(f"{np.mean(before):.3f} before, {np.mean(after):.3f} after")
    assert np.mean(rejected) >= 0.9
    assert np.mean(after) >= np.mean(before) - 0.01


LARGE = """
    import resource, sys
    from time import perf_counter
    import numpy as np
    from oslo_sklearn import NovelClassDiscovery

    with np.load(sys.argv[1]) as data:
        X, y = data["X"].astype(np.float32), data["y"]
    known = np.isin(y, np.unique(y)[:5])
    support = np.concatenate([np.flatnonzero(y == name)[:5] for name in np.unique(y)[:5]])
    query = np.concatenate([X[known], X[~known], X[~known]])
    query += 0.01 * np.random.default_rng(0).standard_normal(query.shape, dtype=np.float32)
    X, y = X[support], y[support]
    NovelClassDiscovery().fit(X, y, query[:300])  # imports and compiled loops
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = perf_counter()
    found = NovelClassDiscovery(random_state=0).fit(X, y, query)
    seconds = perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(found.is_outlier_.sum(), seconds, before / 2**20, after / 2**20)
"""


def test_twenty_thousand_rejected_rows():
    """A fit takes less than a minute, and less than 1 GiB beside the data and the libraries."""
    command = [sys.executable, "-c", textwrap.dedent(LARGE), str(DATA / "cub_lite0.npz")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    n_rejected, seconds, before, after = map(float, answer.stdout.split())
    print(f"{n_rejected:.0f} rejected rows: {seconds:.1f} s, peak {before:.2f} to {after:.2f} GiB")
    assert n_rejected >= 20_000
    assert seconds < 60
    assert after - before < 1
