"""Small faults in the core, written by Cosmic Ray: do the tests of a module notice those in it?

    python -m pip install cosmic-ray
    python tests/mutants.py                                         # every mutant: hours
    python tests/mutants.py --sample 60 oslo_sklearn/_decision.py   # some, the same on every run

Each mutant runs in a process forked from one that has imported torch and scikit-learn, and meets
the tests of its module alone: seconds instead of minutes. No file is changed. Compiled loops
(``_*_numba.py``) are left out: numba would load what it has stored of the original.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib.machinery
import os
import random
import signal
import sys
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OF_METHODS = ["tests/test_oslo.py", "tests/test_bad_input.py", "tests/test_decision.py"]
OF_CACHE = ["tests/evaluation/test_row_cache.py", "tests/evaluation/test_cache.py"]
OF_OSLO = ["tests/solvers/test_oslo_solver.py", "tests/test_oslo_properties.py"]
OF_DESCENT = ["tests/solvers/test_descent.py", "tests/baselines/test_gradient.py"]
OF_TRAINED = ["tests/baselines/test_trained.py"]
OF_ADAPTIVE = ["tests/solvers/test_adaptive_solver.py", "tests/test_adaptive.py"]
OF_GRAM = ["tests/solvers/test_adaptive_gram.py", "tests/evaluation/test_solve.py"]
# What pytest runs to notice what is wrong in a module; fast tests first.
TESTS = {
    "oslo_sklearn/base.py": ["tests/test_base.py", *OF_METHODS],
    "oslo_sklearn/_outlier_label.py": ["tests/test_decision.py", "tests/test_bad_input.py"],
    "oslo_sklearn/_decision.py": ["tests/test_decision.py"],
    "oslo_sklearn/conformal/rules.py": ["tests/conformal/test_decisions.py"],
    "oslo_sklearn/evaluation/_cache.py": OF_CACHE,
    "oslo_sklearn/evaluation/_threshold.py": ["tests/evaluation/test_threshold.py"],
    "oslo_sklearn/metrics/_classification.py": ["tests/metrics/test_classification.py"],
    "oslo_sklearn/metrics/_decision.py": ["tests/metrics/test_decision.py"],
    "oslo_sklearn/metrics/_discovery.py": ["tests/metrics/test_discovery.py"],
    "oslo_sklearn/metrics/_quality.py": ["tests/metrics/test_quality.py"],
    "oslo_sklearn/metrics/_ranking.py": ["tests/metrics/test_ranking.py"],
    "oslo_sklearn/metrics/_validation.py": ["tests/metrics"],
    "oslo_sklearn/metrics/curves.py": ["tests/evaluation/test_curves.py", "tests/metrics"],
    "oslo_sklearn/metrics/registry.py": ["tests/metrics/test_registry.py"],
    "oslo_sklearn/solvers/geometry.py": [*OF_OSLO, *OF_ADAPTIVE],
    "oslo_sklearn/solvers/oslo.py": OF_OSLO,
    "oslo_sklearn/solvers/oslo_gram.py": ["tests/solvers/test_oslo_gram.py"],
    "oslo_sklearn/solvers/oslo_tiled.py": ["tests/solvers/test_oslo_tiled.py"],
    "oslo_sklearn/solvers/_oslo_torch.py": ["tests/solvers/test_oslo_gram.py"],
    "oslo_sklearn/solvers/adaptive.py": OF_ADAPTIVE,
    "oslo_sklearn/solvers/adaptive_belief.py": ["tests/solvers/test_adaptive_belief.py"],
    "oslo_sklearn/solvers/adaptive_gram.py": ["tests/solvers/test_adaptive_gram.py"],
    "oslo_sklearn/solvers/adaptive_kernel.py": ["tests/solvers/test_adaptive_kernel.py"],
    "oslo_sklearn/solvers/adaptive_sums.py": ["tests/solvers/test_adaptive_tiled.py"],
    "oslo_sklearn/solvers/adaptive_tiled.py": ["tests/solvers/test_adaptive_tiled.py"],
    "oslo_sklearn/solvers/smoother.py": OF_ADAPTIVE,
    "oslo_sklearn/solvers/pool_gram.py": ["tests/solvers/test_oslo_gram.py", *OF_GRAM],
    "oslo_sklearn/solvers/adam.py": OF_DESCENT,
    "oslo_sklearn/solvers/prototype_descent.py": OF_DESCENT,
    "oslo_sklearn/solvers/open_heads.py": OF_DESCENT,
    "oslo_sklearn/solvers/attention.py": OF_TRAINED,
    "oslo_sklearn/solvers/peeler.py": OF_TRAINED,
    "oslo_sklearn/solvers/tane.py": OF_TRAINED,
    "oslo_sklearn/solvers/bdcspn.py": ["tests/baselines/test_closed_form.py"],
    "oslo_sklearn/solvers/laplacian.py": ["tests/baselines/test_closed_form.py"],
    "oslo_sklearn/solvers/sinkhorn.py": ["tests/baselines/test_closed_form.py"],
    "oslo_sklearn/solvers/ici.py": ["tests/baselines/test_lrici.py"],
    "oslo_sklearn/solvers/weibull.py": ["tests/baselines/test_openmax.py"],
    "oslo_sklearn/detectors/_hbos.py": ["tests/detectors/test_detectors.py", "-k", "histogram"],
    "oslo_sklearn/detectors/_knn.py": ["tests/detectors/test_detectors.py", "-k", "neighbor"],
    "oslo_sklearn/solvers/diagnosis.py": ["tests/test_base.py", "tests/test_task_warnings.py"],
    "oslo_sklearn/solvers/scores.py": ["tests/test_extremes.py", *OF_DESCENT],
}
MOST_SECONDS = 300  # of processor time for a mutant's tests


def mutants(source: str, order: random.Random):
    """Each changed source that is another program, in random order."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code

    classes = map(plugins.get_operator, sorted(plugins.operator_names()))
    operators = [operator() for operator in classes if not operator.arguments()]
    nodes = list(ast_nodes(get_ast(source)))
    places = [
        (operator, occurrence)
        for operator in operators
        for occurrence in range(sum(len(list(operator.mutation_positions(n))) for n in nodes))
    ]
    order.shuffle(places)
    seen = {_program(source)}
    for operator, occurrence in places:
        changed = mutate_code(source, operator, occurrence)
        try:
            program = _program(changed)
        except SyntaxError:  # the star of a signature is no product
            continue
        if program not in seen:
            seen.add(program)
            yield changed


def _program(source: str) -> str:
    """What the source does: annotations, which are strings, do nothing."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if getattr(node, field, None) is not None:
                setattr(node, field, ast.Constant(0))
    return ast.dump(tree)


def difference(source: str, changed: str) -> list[str]:
    """The changed lines, before and after."""
    lines = (text.split("\n") for text in (source, changed))
    return list(difflib.unified_diff(*lines, n=0, lineterm=""))[2:]


def survives(path: Path, source: str, tests: list[str]) -> bool:
    """Whether the tests pass with this source in place of the file's."""
    child = os.fork()
    if not child:
        _test(path, source, tests)
    _, status = os.waitpid(child, 0)
    return status == 0


def _test(path: Path, source: str, tests: list[str]) -> None:
    import resource

    import pytest

    # A mutant that does not end, ends here.
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    silence = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(silence, descriptor)
    get_code = importlib.machinery.SourceFileLoader.get_code

    def get_changed_code(loader, name):
        if Path(loader.path) == path:
            return compile(source, path, "exec")
        return get_code(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_changed_code
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly"]
    os._exit(int(pytest.main([*options, *tests])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", default=list(TESTS))
    parser.add_argument("--sample", type=int, help="so many mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    _load_what_tests_import()
    for module in words.modules:
        path = ROOT / module
        source, tests = path.read_text(), TESTS[module]
        if not survives(path, source, tests):
            sys.exit(f"{module}: its tests fail without a mutant")
        n_tried = n_killed = 0
        for changed in islice(mutants(source, random.Random(words.seed)), words.sample):
            n_tried += 1
            if survives(path, changed, tests):
                print(*difference(source, changed), sep="\n", flush=True)
            else:
                n_killed += 1
        print(f"{module}: {n_killed} of {n_tried} mutants killed", flush=True)


def _load_what_tests_import() -> None:
    """Everything but the package itself, which each mutant's process imports anew."""
    import hypothesis.extra.numpy
    import pandas
    import pytest
    import scipy.stats
    import sklearn.model_selection
    import torch

    assert not any(name.startswith("oslo_sklearn") for name in sys.modules)
    torch.set_num_threads(1)
    del hypothesis, pandas, pytest, scipy, sklearn


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork
    main()
