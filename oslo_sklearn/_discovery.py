"""Every estimator of the package."""

from __future__ import annotations


def all_estimators() -> list[tuple[str, type]]:
    """List the package's open-set classifiers as ``(name, class)``, sorted by name."""
    import oslo_sklearn
    from oslo_sklearn.base import FewShotOpenSetClassifier

    found = ((name, getattr(oslo_sklearn, name)) for name in oslo_sklearn.__all__)
    return sorted(
        (name, obj)
        for name, obj in found
        if isinstance(obj, type) and issubclass(obj, FewShotOpenSetClassifier)
    )
