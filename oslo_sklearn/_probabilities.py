"""What every classifier of the package derives from its probabilities."""

from __future__ import annotations

import numpy as np


class LogProbabilities:
    """Adds ``predict_log_proba`` to a class that has ``predict_proba``."""

    def predict_log_proba(self, X):
        """Logarithm of ``predict_proba(X)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            ``-inf`` where a probability is zero.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
