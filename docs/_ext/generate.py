"""Pages of the documentation that are made out of the package: the methods' table, the API."""

from __future__ import annotations

import inspect
import re
import time
import warnings
from pathlib import Path

import numpy as np
from quality import USE_WHEN, quality

import oslo_sklearn
from oslo_sklearn.base import FewShotOpenSetClassifier
from oslo_sklearn.detectors._base import DetectorBase

# Further modules whose public names have a page each, where the package has them.
MODULES = {
    "metrics": "Metrics",
    "presets": "The paper's settings",
    "plotting": "Figures",
    "recipes": "The paper's experiments",
    "report": "Reports of results",
    "exceptions": "Warnings",
}
SECTIONS = {  # by the module that defines a name, below the package
    "oslo": "Transductive and inductive methods",
    "adaptive": "Transductive and inductive methods",
    "baselines": "Transductive and inductive methods",
    "detectors": "Detectors",
    "conformal": "Decisions with a guarantee",
    "discovery": "The unknown",
    "pipeline": "Pipelines, tasks and evaluation",
    "tasks": "Pipelines, tasks and evaluation",
    "evaluation": "Pipelines, tasks and evaluation",
    "preprocessing": "Transformers and images",
    "features": "Transformers and images",
}
OTHER = "Everything else"
EXAMPLES = (
    "plot_quickstart_digits",
    "plot_text",
    "plot_table",
    "plot_corrections",
    "plot_prototype_path",
    "plot_thresholds",
    "plot_decisions",
    "plot_discover_digits",
    "plot_grid_search",
    "plot_images",
    "plot_all_methods",
    "plot_query_size",
    "plot_ablation",
    "plot_paper_table",
)


def write_pages(folder: Path) -> None:
    """Write all generated pages; what has not changed is left alone."""
    folder.mkdir(exist_ok=True)
    docs = folder.parent
    pages = {
        "api.rst": api_page(),
        "methods_table.inc": methods_table(),
        "results.inc": toctree(docs, "results/**/*.rst", incomplete_results(docs)),
        "trained_heads.inc": toctree(docs, "trained_heads.rst"),
    }
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def incomplete_results(docs: Path) -> list[str]:
    """Pages of results whose tables or figures have not been made yet."""
    found = []
    for page in sorted(docs.glob("results/**/*.rst")):
        parts = re.findall(r"^\.\. (?:include|image|figure):: (\S+)", page.read_text(), re.M)
        paths = (docs / part[1:] if part[0] == "/" else page.parent / part for part in parts)
        if not all(path.exists() for path in paths):
            found.append(page.relative_to(docs).as_posix())
    return found


def toctree(docs: Path, pattern: str, leave_out=()) -> str:
    """A toctree of the pages that are there: one of none would be a warning."""
    pages = sorted(path.relative_to(docs) for path in docs.glob(pattern))
    pages.sort(key=lambda page: page.stem != "index")
    found = [page.with_suffix("") for page in pages if page.as_posix() not in leave_out]
    if not found:
        return ""
    return "\n".join([".. toctree::", "   :maxdepth: 1", "", *(f"   /{p}" for p in found), ""])


# The methods' table.


def describe_methods() -> list[dict]:
    """What the table says of each method, asked of the class or tried on a small task."""
    return [
        _describe(name, cls)
        for name, cls in oslo_sklearn.all_estimators()
        if issubclass(cls, FewShotOpenSetClassifier)
    ]


def methods_table() -> str:
    """The table over `all_estimators()` in reStructuredText, recommended methods first."""
    lines = [
        ".. list-table::",
        "   :header-rows: 1",
        "   :class: methods-table",
        "   :widths: 17 33 13 13 13 11",
        "",
        *_line("Method", "Use it when", "Accuracy", "AUROC", "Needs", "Cost"),
    ]
    found = quality()
    for row in sorted(describe_methods(), key=_reading_order):
        name = row["name"]
        scores = found.get(name, {})
        lines += _line(
            f":class:`~oslo_sklearn.{name}`",
            USE_WHEN.get(name, "–"),
            scores.get("accuracy", "–"),
            scores.get("auroc", "–"),
            "base classes" if row["needs_base"] else "query" if row["needs_query"] else "–",
            _duration(row["seconds"]),
        )
    return "\n".join(lines) + "\n"


def _line(first, *others) -> list[str]:
    return [f"   * - {first}", *(f"     - {cell}" for cell in others)]


def _reading_order(row):
    """The order of `USE_WHEN`, then the rest by name."""
    names = list(USE_WHEN)
    name = row["name"]
    return (names.index(name) if name in names else len(names)), name


def _describe(name: str, cls: type) -> dict:
    needs_base = hasattr(cls, "fit_base")
    estimator = cls(head="untrained") if needs_base else cls()
    if "random_state" in estimator.get_params(deep=False):
        estimator.set_params(random_state=0)
    support_X, support_y, query_X = _small_task()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(support_X, support_y, query_X)  # the first one also compiles and imports
        durations = []
        while len(durations) < 5 and sum(durations) < 1:
            start = time.process_time()
            estimator.fit(support_X, support_y, query_X)
            durations.append(time.process_time() - start)
        estimator.fit(support_X, support_y)
        together = estimator.score_samples(query_X)[:20]
        apart = estimator.score_samples(query_X[:20])
    return {
        "name": name,
        "family": family(name, cls),
        "needs_query": estimator._needs_query(),
        "needs_base": needs_base,
        "batch_dependent": not np.allclose(together, apart, rtol=1e-3, atol=1e-5),
        "seconds": min(durations),
    }


def family(name: str, cls: type) -> str:
    """The family in the paper's table, or what can be told from the class."""
    if issubclass(cls, DetectorBase):
        return "detector"
    kind = "transductive" if cls._transductive else "inductive"
    try:
        from oslo_sklearn.recipes._methods import FAMILIES
    except ImportError:
        FAMILIES = {}
    is_open_set = any("open-set" in group and name in names for group, names in FAMILIES.items())
    # The package's own variants of an open-set method stay in its family.
    is_open_set |= issubclass(cls, oslo_sklearn.OSLO)
    return f"{kind} open-set" if is_open_set else kind


def _small_task(n_way=5, n_open=5, n_query=15, n_features=640):
    rng = np.random.default_rng(0)
    means = rng.normal(size=(n_way + n_open, n_features)) + 1.0
    labels = np.repeat(np.arange(n_way + n_open), n_query)
    support_y = np.arange(n_way)
    support_X, query_X = (
        (means[codes] + rng.normal(size=(len(codes), n_features))).astype(np.float32)
        for codes in (support_y, labels)
    )
    return support_X, support_y, query_X


def _duration(seconds: float) -> str:
    """One significant digit: the machine and its load decide the next."""
    return f"{float(f'{1000 * seconds:.0e}'):g}\N{NO-BREAK SPACE}ms"


# The API reference.


def api_page() -> str:
    """The whole page of the API: what `__all__` lists, by where it is defined."""
    sections: dict[str, list[str]] = {title: [] for title in (*SECTIONS.values(), OTHER)}
    methods_first = sorted(oslo_sklearn.__all__, key=lambda n: _reading_order({"name": n})[0])
    for name in methods_first:
        obj = getattr(oslo_sklearn, name)
        if inspect.ismodule(obj) or name.startswith("_"):
            continue
        room = obj.__module__.removeprefix("oslo_sklearn.").split(".")[0]
        sections[SECTIONS.get(room, OTHER)].append(f"oslo_sklearn.{name}")
    sections[SECTIONS["conformal"]].append("oslo_sklearn.conformal.Calibration")
    sections["Base class"] = ["oslo_sklearn.base.FewShotOpenSetClassifier"]
    for name, title in MODULES.items():
        try:
            module = __import__(f"oslo_sklearn.{name}", fromlist=["*"])
        except ImportError:
            continue
        names = [n for n in module.__all__ if callable(getattr(module, n))]
        sections[f"{title}: oslo_sklearn.{name}"] = [f"oslo_sklearn.{name}.{n}" for n in names]
    lines = [".. _api:", "", "API reference", "=============", ""]
    lines += [
        "Every method is a :class:`~oslo_sklearn.base.FewShotOpenSetClassifier`: they share",
        "``fit``, ``predict``, ``predict_proba``, ``score_samples`` and ``transduce``.",
        "",
    ]
    for title, names in sections.items():
        if names:
            lines += [title, "-" * len(title), "", ".. autosummary::", "   :toctree: ."]
            lines += ["   :nosignatures:", "", *(f"   ~{name}" for name in names), ""]
    return "\n".join(lines)


def skip_member(app, what, name, obj, skip, options):
    """Leave out what scikit-learn documents: its references do not resolve here."""
    module = getattr(obj, "__module__", None) or ""
    if name.endswith("_request") or module.startswith("sklearn"):
        return True
    return None


def escape_shapes(app, what, name, obj, options, lines):
    """A name that ends with an underscore, as a part of a shape, is no link."""
    for i, line in enumerate(lines):
        if re.match(r"\s*\w+ : .*shape \(", line):
            lines[i] = re.sub(r"(\w)_(?=[,)])", r"\1\\_", line)


# The gallery.


def reset_sklearn(gallery_conf, fname):
    """Examples that turn metadata routing on do not turn it on for the next one."""
    import sklearn

    sklearn.set_config(enable_metadata_routing=False)


class ReadingOrder:
    """Examples in the order in which they are best read; new ones come last."""

    def __init__(self, src_dir):
        pass

    def __call__(self, filename):
        name = Path(filename).stem
        place = EXAMPLES.index(name) if name in EXAMPLES else len(EXAMPLES)
        return place, name
