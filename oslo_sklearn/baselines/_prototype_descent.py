"""What the methods that move prototypes by gradient steps share."""

from __future__ import annotations

from .._sklearn import COUNT_OR_ZERO, NOT_NEGATIVE, POSITIVE
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.prototype_descent import (
    CosineHead,
    MutualInformation,
    descend_prototypes,
    predict_logits,
)


class PrototypeDescentClassifier(FewShotOpenSetClassifier):
    """Prototypes that Adam moves; a method names its head and what it asks of the query.

    Probabilities and scores are those of a closed-set softmax unless a method says otherwise.
    """

    _parameter_constraints = FewShotOpenSetClassifier._parameter_constraints | {
        "temperature": [POSITIVE],
        "learning_rate": [POSITIVE],
        "max_iter": [COUNT_OR_ZERO],
    }

    def _head(self):
        return CosineHead(float(self.temperature))

    def _query_loss(self, task):
        """What is added to the support's cross-entropy: by default nothing."""

    def _descend(self, task):
        return descend_prototypes(
            self._head(),
            self._query_loss(task),
            task,
            max_iter=self.max_iter,
            learning_rate=float(self.learning_rate),
        )

    def _solve(self, task) -> Solution:
        (prototypes,), objective = self._descend(task)
        return Solution({"prototypes": prototypes}, prototypes=prototypes, objective=objective)

    def _infer(self, state, rows) -> Answer:
        return Answer.of_logits(predict_logits(self._head(), rows, state["prototypes"]))


class InformationMaximizer(PrototypeDescentClassifier):
    """Adds entropies of the query to the loss."""

    _transductive = True

    _parameter_constraints = PrototypeDescentClassifier._parameter_constraints | {
        "marginal_weight": [NOT_NEGATIVE],
        "conditional_weight": [NOT_NEGATIVE],
    }

    def _query_loss(self, task):
        return MutualInformation(float(self.marginal_weight), float(self.conditional_weight))
