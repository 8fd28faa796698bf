"""Adam with torch's defaults, without autograd: the loop of every gradient method."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_DECAY, _SQUARE_DECAY, _EPS = 0.9, 0.999, 1e-8


class Adam:
    """Adam on one tensor, which is updated in place; arithmetic as in ``torch.optim.Adam``."""

    def __init__(self, parameter: Tensor, learning_rate: float):
        self.parameter = parameter
        self.learning_rate = learning_rate
        self._mean = torch.zeros_like(parameter)
        self._square = torch.zeros_like(parameter)
        self._n_steps = 0

    def step(self, gradient: Tensor) -> None:
        """Move against ``gradient``."""
        self._n_steps += 1
        self._mean.lerp_(gradient, 1 - _DECAY)
        self._square.mul_(_SQUARE_DECAY).addcmul_(gradient, gradient, value=1 - _SQUARE_DECAY)
        step_size = self.learning_rate / (1 - _DECAY**self._n_steps)
        root = math.sqrt(1 - _SQUARE_DECAY**self._n_steps)
        step_size = min(step_size, torch.finfo(self.parameter.dtype).max)
        scale = self._square.sqrt().div_(root).add_(_EPS)
        self.parameter.addcdiv_(self._mean, scale, value=-step_size)


def minimize(
    loss: Callable[..., tuple[Tensor, Sequence[Tensor]]],
    start: Sequence[Tensor],
    *,
    max_iter: int,
    learning_rate: float,
) -> tuple[list[Tensor], Tensor]:
    """Take ``max_iter`` steps of Adam from ``start``; return the parameters and the losses.

    ``loss(*parameters)`` returns the loss of each task, ``(B,)``, and a gradient per parameter. The
    returned losses ``(B, max_iter)`` are those after each step.
    """
    parameters = [tensor.clone(memory_format=torch.contiguous_format) for tensor in start]
    optimizers = [Adam(tensor, learning_rate) for tensor in parameters]
    losses = []
    for _ in range(max_iter):
        value, gradients = loss(*parameters)
        losses.append(value)
        for optimizer, gradient in zip(optimizers, gradients, strict=True):
            optimizer.step(gradient)
    losses.append(loss(*parameters)[0])
    return parameters, torch.stack(losses, -1)[..., 1:]
