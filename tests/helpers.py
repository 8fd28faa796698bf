"""What several test modules use."""

from __future__ import annotations

import itertools
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from oslo_sklearn.checks import make_task

__all__ = [
    "DATA",
    "all_pairs",
    "assert_same_answers",
    "make_task",
    "oslo_transcription",
    "parametrize_with_sklearn_checks",
]

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def all_pairs(**values) -> list[tuple]:
    """Combinations that hold every pair of values of two parameters, in place of the product.

    Greedy, and the same on every call: of all combinations, each time the one with most new pairs.
    """
    combinations = list(product(*values.values()))

    def pairs(combination):
        numbered = [(i, repr(value)) for i, value in enumerate(combination)]
        return set(itertools.combinations(numbered, 2))

    left, chosen = set().union(*map(pairs, combinations)), []
    while left:
        best = max(combinations, key=lambda one: len(pairs(one) & left))
        chosen.append(best)
        left -= pairs(best)
    return chosen


def oslo_transcription(
    support,
    labels,
    query,
    lambda_z=0.1,
    lambda_xi=0.05,
    max_iter=2,
    likelihood="cosine",
    inlierness=True,
):
    """OSLO's formulas written down row by row in float64, for prepared rows."""
    n_classes = labels.max() + 1

    def log_p(x, mu):
        return unit(x) @ mu if likelihood == "cosine" else -((x - mu) ** 2).sum() / 2

    def model(sums, weights):
        if likelihood == "gaussian":
            return [total / weight for total, weight in zip(sums, weights, strict=True)]
        return [total / np.linalg.norm(total) for total in sums]

    def entropy(p):
        p = p[p > 0]
        return -(p * np.log(p)).sum()

    def unit(x):
        return x / np.linalg.norm(x) if likelihood == "cosine" else x

    start = [support[labels == k] for k in range(n_classes)]
    prototypes = model([rows.sum(0) for rows in start], [len(rows) for rows in start])
    z = np.full((len(query), n_classes), 1 / n_classes)
    xi = np.empty(len(query))
    objective = []
    for step in range(max(max_iter, 1)):
        for i, x in enumerate(query):
            fit = sum(z[i, k] * log_p(x, prototypes[k]) for k in range(n_classes))
            xi[i] = 1 / (1 + np.exp(-fit / lambda_xi))
        if step == max_iter:
            break
        for i, x in enumerate(query):
            weight = xi[i] if inlierness else 1.0
            powers = np.array([np.exp(weight * log_p(x, mu) / lambda_z) for mu in prototypes])
            z[i] = powers / powers.sum()
        used = xi if inlierness else np.ones(len(query))
        sums = [
            sum(unit(x) for x in support[labels == k])
            + sum(used[i] * z[i, k] * unit(query[i]) for i in range(len(query)))
            for k in range(n_classes)
        ]
        weights = [(labels == k).sum() + (used * z[:, k]).sum() for k in range(n_classes)]
        prototypes = model(sums, weights)
        value = sum(log_p(x, prototypes[k]) for x, k in zip(support, labels, strict=True))
        for i, x in enumerate(query):
            fit = sum(z[i, k] * log_p(x, prototypes[k]) for k in range(n_classes))
            value += used[i] * fit + lambda_z * entropy(z[i])
            if inlierness:
                value += lambda_xi * entropy(np.array([xi[i], 1 - xi[i]]))
        objective.append(value)
    final = np.array([[log_p(x, mu) for mu in prototypes] for x in query])
    return {
        "prototypes": np.array(prototypes),
        "z": z,
        "xi": xi,
        "log_p": final,
        "labels": final.argmax(1),
        "objective": np.array(objective),
    }


def assert_same_answers(found, expected, params, order=slice(None)):
    """Equal to the contract's tolerance: 1e-4 in units of log p.

    Scores are log p / lambda_xi; log-probabilities are log p / lambda_z up to a constant.
    """
    lambda_xi = params.get("lambda_xi", 0.05)
    np.testing.assert_allclose(
        lambda_xi * found.outlierness, lambda_xi * expected.outlierness[order], rtol=0, atol=1e-4
    )
    with np.errstate(divide="ignore"):
        best_two = np.sort(np.log(expected.proba[order]), axis=1)[:, -2:]
    if best_two.shape[1] == 2:
        clear = params.get("lambda_z", 0.1) * (best_two[:, 1] - best_two[:, 0]) > 1e-4
    else:
        clear = np.ones(len(best_two), dtype=bool)
    np.testing.assert_array_equal(found.labels[clear], expected.labels[order][clear])
    # A softmax moves by at most half of what its logits move by, and these are log p / lambda_z.
    atol = 1e-4 / params.get("lambda_z", 0.1)
    np.testing.assert_allclose(found.proba, expected.proba[order], rtol=0, atol=atol)


def runs_here(check) -> bool:
    """Whether the library and the device are there that a check of array API support asks for."""
    if "device" in check.keywords:  # scikit-learn before 1.8 wants classes_ in the array's library
        return False
    asked = {name: check.keywords.get(name) for name in ("array_namespace", "device_name")}
    places = [value for value in check.keywords.values() if hasattr(value, "xp")]
    libraries = {asked["array_namespace"], *(place.xp for place in places)} - {None}
    devices = {asked["device_name"], *(place.device for place in places)}
    is_there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "xpu": hasattr(torch, "xpu") and torch.xpu.is_available(),
    }
    return all(map(find_spec, libraries)) and all(is_there.get(d, True) for d in devices)


def parametrize_with_sklearn_checks(estimators, expected=None):
    """As scikit-learn's `parametrize_with_checks`, without checks that cannot run here."""
    mark = parametrize_with_checks(estimators, expected_failed_checks=expected)
    names, cases = mark.args
    cases = [case for case in cases if runs_here(getattr(case, "values", case)[1])]
    return pytest.mark.parametrize(names, cases, **mark.kwargs)
