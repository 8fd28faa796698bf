"""Open-set scores shared by several methods; higher means more outlying.

Probabilities are returned in double precision: next to 1, single precision would make ties of
rows that a method tells apart.
"""

from __future__ import annotations

import torch
from torch import Tensor


def msp_score(log_proba: Tensor) -> Tensor:
    """Minus the largest class probability, ``(B, n, K)`` to ``(B, n)``.

    A constant added to a row of ``log_proba`` does not change its score.
    """
    if log_proba.shape[-1] == 1:
        return torch.full_like(log_proba[..., 0], -1.0)
    # Probabilities that are exactly 0 must not give an infinite difference.
    log_proba = log_proba.clamp_min(torch.finfo(log_proba.dtype).min / 4)
    ordered = log_proba.sort(dim=-1, descending=True).values
    return -probability(ordered[..., 0] - torch.logsumexp(ordered[..., 1:], dim=-1))


def outlier_probability(logits: Tensor) -> Tensor:
    """Probability of the last entry of a softmax, "none of the classes": ``(B, n)``."""
    return probability(logits[..., -1] - torch.logsumexp(logits[..., :-1], dim=-1))


def probability(log_odds: Tensor) -> Tensor:
    """Probability of given log-odds."""
    # Apple's GPUs have no double precision.
    return torch.sigmoid(log_odds if log_odds.device.type == "mps" else log_odds.double())
