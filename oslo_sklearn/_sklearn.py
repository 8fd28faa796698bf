"""Private names of scikit-learn: here and nowhere else, so that one file follows its changes."""

from functools import cache, lru_cache
from numbers import Integral, Real
from typing import Any

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._array_api import _convert_to_numpy as convert_to_numpy
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    StrOptions,
    make_constraint,
    validate_parameter_constraints,
)
from sklearn.utils._set_output import _get_output_config as get_output_config

# scikit-learn's base classes have no types: to mypy, a misspelt method would pass for one of
# theirs. Other type checkers bring stubs of scikit-learn, where these must be the base classes.
MYPY = False
if MYPY:
    from ._typing import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
else:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin

# What `_parameter_constraints` allow most often.
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
SHARE = Interval(Real, 0, 1, closed="neither")
COUNT = Interval(Integral, 1, None, closed="left")
COUNT_OR_ZERO = Interval(Integral, 0, None, closed="left")


@cache
def _allowed(cls) -> dict[str, list]:
    return {
        name: [make_constraint(one) for one in constraints]
        for name, constraints in cls._parameter_constraints.items()
        if constraints != "no_validation"
    }


def check_params(estimator, names=None) -> None:
    """As ``estimator._validate_params()``, of some parameters or all, at a tenth of its cost."""
    cls: Any = type(estimator)
    for name in _allowed(cls) if names is None else names:
        value = getattr(estimator, name)
        is_plain = type(value) in (str, bool, int, float, type(None))
        check = _is_allowed if is_plain else _is_allowed.__wrapped__
        if not check(cls, name, value):
            validate_parameter_constraints(
                cls._parameter_constraints, {name: value}, caller_name=cls.__name__
            )


@lru_cache(1024, typed=True)  # True, 1 and 1.0 are equal
def _is_allowed(cls, name: str, value) -> bool:
    return any(one.is_satisfied_by(value) for one in _allowed(cls)[name])
