"""Every estimator of the package."""

from __future__ import annotations

from sklearn.base import ClassifierMixin


def all_estimators() -> list[tuple[str, type]]:
    """List the open-set classifiers that the package exports.

    Returns
    -------
    estimators : list of (name, class)
        Sorted by name.

    Examples
    --------
    >>> from oslo_sklearn import all_estimators
    >>> dict(all_estimators())["OSLO"]
    <class 'oslo_sklearn.oslo.OSLO'>
    """
    import oslo_sklearn

    found = ((name, getattr(oslo_sklearn, name)) for name in oslo_sklearn.__all__)
    return sorted(
        (name, obj)
        for name, obj in found
        if isinstance(obj, type) and issubclass(obj, ClassifierMixin) and hasattr(obj, "transduce")
    )
