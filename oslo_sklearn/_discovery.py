"""Every estimator of the package."""

from __future__ import annotations


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
    from oslo_sklearn.base import FewShotOpenSetClassifier

    found = ((name, getattr(oslo_sklearn, name)) for name in oslo_sklearn.__all__)
    return sorted(
        (name, obj)
        for name, obj in found
        if isinstance(obj, type)
        and issubclass(obj, FewShotOpenSetClassifier)
        and obj is not FewShotOpenSetClassifier
    )
