"""LR-ICI: self-training on credible pseudo-labels."""

from __future__ import annotations

import numbers

import numpy as np
import torch
from sklearn.utils._param_validation import Interval

from .._docs import shared_docs
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.ici import solve_ici
from ..solvers.scores import msp_score


@shared_docs
class LRICI(FewShotOpenSetClassifier):
    r"""LR-ICI: a logistic regression that trains itself on its most credible predictions.

    How credible a pseudo-label is shows in a linear model of all one-hot labels :math:`Y` on the
    rows' principal components :math:`E`, in which every row may buy an offset of its own,

    .. math::
        \min_{\beta, \gamma} \tfrac12 \|Y - E \beta - \gamma\|^2 + \lambda \sum_i \|\gamma_i\|.

    Rows whose offset :math:`\gamma_i` stays zero under a small penalty :math:`\lambda` agree with
    the rest. Each round predicts the query, walks from the smallest penalty to the largest to
    take the first few rows of each predicted class, and fits the regression anew, until all rows
    are in. The score is minus the largest probability.

    Parameters
    ----------
    C : float, default=20.0
        Inverse penalty of the logistic regression, as in `sklearn.linear_model`.
    n_components : int, default=50
        Principal components of support and query that credibility is judged on; fewer where
        the rows do not have as many.
    n_select : int, default=5
        Rows of each predicted class that are taken in a round.
    @parameters

    Attributes
    ----------
    @attributes

    Notes
    -----
    The penalties are 100, down to a thousandth of the one under which all offsets are zero. They
    are walked from the largest, and only until no class has more candidates left than it may
    give: what follows would decide in which order those are taken, but for the rare row whose
    offset returns to zero under a still smaller penalty, which is not looked for. The principal
    components are exact, where the authors' code draws them at random. Rows are few and the
    selection is sequential: this method computes on the CPU, in double precision, and its time
    grows with the cube of the number of rows.

    References
    ----------
    Wang, Xu, Liu, Zhang, Fu: *Instance Credibility Inference for Few-Shot Learning*, CVPR 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import LRICI
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(3, 20)
    >>> support_X = directions[:2] + rng.normal(size=(2, 20))
    >>> query_X = directions.repeat(5, axis=0) + rng.normal(size=(15, 20))
    >>> lrici = LRICI().fit(support_X, ["cat", "dog"], query_X)
    >>> lrici.predict(query_X[:10])
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog'], dtype='<U3')
    """

    _transductive = True

    _parameter_constraints = {
        **FewShotOpenSetClassifier._parameter_constraints,
        "C": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_components": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_select": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C=20.0,
        n_components=50,
        *,
        n_select=5,
        center="task",
        normalize=True,
        outlier_label=None,
        threshold="auto",
        contamination=None,
        device="auto",
        dtype=None,
    ):
        self.C = C
        self.n_components = n_components
        self.n_select = n_select
        self.center = center
        self.normalize = normalize
        self.outlier_label = outlier_label
        self.threshold = threshold
        self.contamination = contamination
        self.device = device
        self.dtype = dtype

    def _solve(self, task) -> Solution:
        tasks = zip(*(tensor.cpu().numpy() for tensor in task[:3]), strict=True)
        solved = [
            solve_ici(
                *arrays,
                task.n_classes,
                C=float(self.C),
                n_components=self.n_components,
                n_select=self.n_select,
            )
            for arrays in tasks
        ]
        coef = np.stack([regression.coef for regression, _ in solved])
        intercept = np.stack([regression.intercept for regression, _ in solved])
        state = {"coef": coef, "intercept": intercept}
        return Solution(
            {name: torch.from_numpy(array).to(task.query) for name, array in state.items()},
            n_iter=torch.tensor([n_rounds for _, n_rounds in solved]),
        )

    def _infer(self, state, rows) -> Answer:
        logits = rows @ state["coef"] + state["intercept"][:, None]
        return Answer(torch.softmax(logits, -1), msp_score(logits))
