"""LaplacianShot: neighbours in the query share their class."""

from __future__ import annotations

from .._docs import shared_docs
from .._sklearn import COUNT, COUNT_OR_ZERO, NOT_NEGATIVE
from .._typing import Center, Device, DType, Label, Threshold
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.bdcspn import rectify_prototypes
from ..solvers.laplacian import replay_laplacian, solve_laplacian
from ..solvers.scores import msp_score


@shared_docs
class LaplacianShot(FewShotOpenSetClassifier):
    r"""LaplacianShot: assignments to prototypes, smoothed over neighbours in the query.

    With :math:`\mu_k` the prototypes of `BDCSPN`, :math:`a_{ik} = \|x_i - \mu_k\|^2` and
    :math:`w_{ij} = 1` where :math:`j` is among the query rows nearest to :math:`i`, it lowers

    .. math::
        \sum_i y_i^\top a_i + y_i^\top \log y_i - \lambda \sum_{ij} w_{ij} y_i^\top y_j

    by the steps :math:`y_i = \mathrm{softmax}(-a_i + \lambda \sum_j w_{ij} y_j)`. The score is
    minus the largest assignment.

    Parameters
    ----------
    lambda_laplacian : float, default=0.7
        Weight of the neighbours. The paper tunes it, with smaller values for more shots.
    n_neighbors : int, default=3
        Neighbours including the row itself; 3 means two others.
    max_iter : int, default=20
        Largest number of steps.
    tol : float, default=1e-6
        Stop when the relative change of the energy is at most this.
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The rectified prototypes.
    objective_ : ndarray of shape (max_iter,)
        The energy after each step. It does not change after ``tol`` is reached.
    converged_ : bool
        Whether ``tol`` was reached.

    Notes
    -----
    An estimator that was fitted with a query keeps it, to find the neighbours of a row. A row
    within a relative distance of 1e-6 of a query row gets its answer. A new row follows its nearest
    query rows and does not change them. As in the authors' code, and unlike the usual form of the
    energy, the neighbourhood is not made symmetric and the unary term is not halved.

    References
    ----------
    Ziko, Dolz, Granger, Ben Ayed: *Laplacian Regularized Few-Shot Learning*, ICML 2020.

    @example
    """

    _transductive = True

    _parameter_constraints = FewShotOpenSetClassifier._parameter_constraints | {
        "lambda_laplacian": [NOT_NEGATIVE],
        "n_neighbors": [COUNT],
        "max_iter": [COUNT_OR_ZERO],
        "tol": [NOT_NEGATIVE],
    }

    def __init__(
        self,
        lambda_laplacian: float = 0.7,
        n_neighbors: int = 3,
        *,
        max_iter: int = 20,
        tol: float = 1e-6,
        center: Center = "task",
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.lambda_laplacian = lambda_laplacian
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.tol = tol
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _graph(self) -> dict:
        return {"n_neighbors": self.n_neighbors - 1, "weight": float(self.lambda_laplacian)}

    def _solve(self, task) -> Solution:
        prototypes = rectify_prototypes(*task)
        solved = solve_laplacian(
            task.query, prototypes, max_iter=self.max_iter, tol=float(self.tol), **self._graph()
        )
        state = {
            "prototypes": prototypes,
            "query": task.query,
            "log_y": solved.log_y,
            "y_before": solved.y_before,
        }
        return Solution(
            state,
            self._as_answer(solved.log_y),
            prototypes=prototypes,
            objective=solved.energy,
            n_iter=solved.n_iter,
            converged=solved.converged,
        )

    def _infer(self, state, rows) -> Answer:
        path = (state[name] for name in ("prototypes", "query", "log_y", "y_before"))
        return self._as_answer(replay_laplacian(rows, *path, **self._graph()))

    def _as_answer(self, log_y) -> Answer:
        return Answer(log_y.exp(), msp_score(log_y))
