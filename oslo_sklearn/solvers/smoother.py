"""Ridge regression whose prior is the second moment of the rows themselves."""

from __future__ import annotations

import torch
from torch import Tensor

from .geometry import product


class Smoother:
    r"""Ridge regression of targets on rows, ``(B, R, N)`` to fitted values of that shape.

    The rows come in two parts ``(B, ., d)``, N in all.

    Solves :math:`\max_V \sum_i \omega_i (d_i \cdot V x_i - \|V x_i\|^2 / 2) - \lambda
    \operatorname{tr}(V M^{-1} V^\top) / 2`, M being :math:`X^\top X` scaled so that the mean of
    :math:`x_i^\top M x_i` is 1. The factorisation is of the smaller of N and d.
    """

    def __init__(self, parts: tuple[Tensor, Tensor], omega: Tensor, ridge: float):
        self._parts = parts
        self._omega = omega
        n_rows, n_features = omega.shape[-1], parts[0].shape[-1]
        self._is_dual = n_rows <= n_features
        if self._is_dual:
            # A copy of all rows in one piece would take as long as their products.
            first, last = parts
            across = product(first, last.mT)
            blocks = [[product(first, first.mT), across], [across.mT, product(last, last.mT)]]
            self._gram = torch.cat([torch.cat(row, -1) for row in blocks], -2)
            self._factorise(self._gram, ridge / omega, _scale(self._gram, n_rows))
            return
        moment = sum(part.mT @ part for part in parts)
        weights = omega[..., None].split([part.shape[-2] for part in parts], -2)
        pairs = zip(parts, weights, strict=True)
        weighted = sum(_exact(part * weight).mT @ _exact(part) for part, weight in pairs)
        self._map = moment_map(moment, weighted, n_rows, ridge)

    def _factorise(self, gram: Tensor, noise: Tensor, scale: Tensor) -> None:
        kernel = product(gram, gram).div_(scale)
        kernel.diagonal(dim1=-2, dim2=-1).add_(noise)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(_exact(kernel)))
        self._inverse = inverse.to(gram.dtype)
        self._hat = self._inverse * -noise[..., None, :]
        self._hat.diagonal(dim1=-2, dim2=-1).add_(1)
        self._scale = scale

    def gram_of_last(self) -> Tensor | None:
        """Products of the last part's rows with each other, if they are at hand."""
        at = self._parts[0].shape[-2]
        return self._gram[:, at:, at:] if self._is_dual else None

    def __call__(self, targets: Tensor) -> Tensor:
        """Fitted values of all rows."""
        if self._is_dual:
            return product(targets, self._hat)
        weights = self.weights(targets)
        return torch.cat([weights @ part.mT for part in self._parts], -1)

    def weights(self, targets: Tensor) -> Tensor:
        """The fitted weights V, ``(B, R, d)``."""
        if self._is_dual:
            coefficients = product(product(targets, self._inverse), self._gram)
            return self._sum_rows(coefficients.div_(self._scale))
        return self._sum_rows(targets * self._omega[..., None, :]) @ self._map

    def _sum_rows(self, coefficients: Tensor) -> Tensor:
        sizes = [part.shape[-2] for part in self._parts]
        pieces = coefficients.split(sizes, -1)
        return sum(product(*pair) for pair in zip(pieces, self._parts, strict=True))


def moment_map(moment: Tensor, weighted: Tensor, n_rows: int, ridge: float) -> Tensor:
    """What sums of weighted targets times rows are multiplied by to have V, ``(B, d, d)``.

    ``moment`` is the sum of the rows' squares, ``weighted`` that with the rows' weights.
    """
    scale = _exact(_scale(moment, n_rows))
    exact = _exact(moment)
    eye = torch.eye(moment.shape[-1], dtype=exact.dtype, device=moment.device)
    system = ridge * scale * eye + _exact(weighted) @ exact
    return torch.linalg.solve(system, exact, left=False).to(moment.dtype)


def _scale(gram: Tensor, n_rows: int) -> Tensor:
    """Mean of the rows' squared lengths under their second moment, ``(B, 1, 1)``."""
    scale = gram.square().sum((-2, -1), keepdim=True) / n_rows
    return scale.clamp_min(torch.finfo(gram.dtype).tiny ** 0.5)


def _exact(tensor: Tensor) -> Tensor:
    """In double precision, where there is one: factorisations lose half the digits."""
    return tensor if tensor.device.type == "mps" else tensor.double()
