"""Centring, the unit sphere, class means and cosines: what every solver starts from.

All functions take a leading batch axis of tasks: rows are ``(B, n, d)``, prototypes ``(B, K, d)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._threads import pays_threads

VERY_FEW = 6  # rows or columns of a product
_NUMPY_FLOATS = (torch.float32, torch.float64)
A_VECTOR = 16  # entries, below which torch's softmax runs slowly along the last axis
PLAIN = 1e-15, 1e15  # lengths between these are far from under- and overflow
CENTER_SHRINKAGE = 4.0  # kappa of `cell_center`; James and Stein have about 1, for other losses


class Task(NamedTuple):
    """A batch of few-shot tasks of one shape, centred and (by default) normalised.

    ``support`` is ``(B, s, d)``, ``labels`` ``(B, s)`` with class indices (-1: a known negative,
    a row of no class), ``query`` ``(B, n, d)`` or None where a method is asked to solve from the
    support alone.
    """

    support: Tensor
    labels: Tensor
    query: Tensor | None
    n_classes: int


def as_tensor(array: np.ndarray | Tensor) -> Tensor:
    """Wrap an array without a copy; solvers never write to their inputs."""
    if isinstance(array, Tensor):
        return array.detach()
    if any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = np.ascontiguousarray(array)
    if not array.flags.writeable:
        # torch warns about read-only memory, which it has no type for.
        array = np.asarray(_Writeable(array))
    return torch.from_numpy(array)


class _Writeable:
    """An array's memory under an interface that claims to be writeable."""

    def __init__(self, array: np.ndarray):
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def mean_row(parts: list[Tensor]) -> Tensor:
    """Mean ``(B, d)`` over the rows of all parts ``(B, n, d)``."""
    n_rows = sum(part.shape[1] for part in parts)
    mean = parts[0].sum(1)
    for part in parts[1:]:
        mean += part.sum(1)
    mean /= n_rows
    if not math.isfinite(float(mean.sum())):  # the sum of huge rows overflows
        mean = sum((part / n_rows).sum(1) for part in parts)
    return mean


def cell_center(support: Tensor, labels: Tensor, query: Tensor | None, n_classes: int) -> Tensor:
    r"""A centre ``(B, d)`` that does not follow the largest class of the query.

    Each query row joins the class whose prototype it is closest to, and each class counts once,
    however many rows it has: the centre is the mean c of the classes' means :math:`m_k`. Few
    classes tell little about the mean of all classes, so that it is shrunk towards zero by
    :math:`1 - \kappa v / (K |c|^2)` with v the variance of the class means (James and Stein).
    """
    if is_alone(labels, n_classes):
        return torch.zeros_like(support[:, 0])
    parts, scale = _scaled([support] if query is None else [support, query])
    joins = one_hot(labels, n_classes, support.dtype)
    sums, counts = product(joins.mT, parts[0]), joins.sum(-2)
    if query is not None:
        prototypes = unit_rows(class_means(unit_rows(parts[0]), labels, n_classes))
        # A cosine's order does not depend on the row's length.
        nearest = product(parts[1], prototypes.mT).argmax(-1)
        joins = one_hot(nearest, n_classes, support.dtype)
        sums, counts = sums + product(joins.mT, parts[1]), counts + joins.sum(-2)
    return center_of_cells(sums, counts) * scale


def _scaled(parts: list[Tensor]) -> tuple[list[Tensor], Tensor | float]:
    """Rows ``(B, n, d)`` over a scale with which no square overflows, and that ``(B, 1)``."""
    if len(parts[0]) == 1 and all(map(is_at_hand, parts)):
        largest = max(abs(value) for part in parts for value in extremes(part))
        if PLAIN[0] < largest < PLAIN[1]:
            return parts, 1.0
    largest = torch.stack([part.abs().amax((1, 2)) for part in parts]).amax(0)[:, None]
    scale = torch.where(largest > 0, largest, 1.0)
    return [part / scale[..., None] for part in parts], scale


def is_alone(labels: Tensor, n_classes: int) -> bool:
    """Whether there is one class and no known negative: nothing tells the mean of all classes."""
    return n_classes == 1 and not bool((labels < 0).any())


def center_of_cells(sums: Tensor, counts: Tensor) -> Tensor:
    """The centre ``(B, d)`` of classes whose rows have these sums ``(B, K, d)`` and counts."""
    n_classes = sums.shape[1]
    means = sums / counts[..., None].clamp_min(1)
    center = means.mean(1)
    square = center.square().sum(-1)
    variance = (means - center[:, None]).square().sum((1, 2)) / max(n_classes - 1, 1)
    tiny = torch.finfo(square.dtype).tiny
    kept = (1 - CENTER_SHRINKAGE * variance / (n_classes * square).clamp_min(tiny)).clamp(0, 1)
    return center * kept[:, None]


def center_rows(x: Tensor, center: Tensor | None) -> tuple[Tensor, Tensor | float]:
    """Subtract ``center``; also return what is no more than rounding noise in each feature."""
    if center is None:
        return x, 0.0
    center = center[..., None, :]
    return x - center, noise_of(center)


def noise_of(center: Tensor) -> Tensor:
    """What is no more than rounding noise in rows from which this centre was subtracted."""
    return 16 * torch.finfo(center.dtype).eps * center.abs()


def unit_rows(x: Tensor, noise: Tensor | float = 0.0, out: Tensor | None = None) -> Tensor:
    """Scale rows to unit norm; rows of nothing but ``noise`` become zero, never NaN.

    ``out`` may be written to, and may be ``x``.
    """
    norm, is_plain = plain_norms(x, noise)
    if is_plain is None:
        return torch.div(x, norm, out=out)
    # Dividing by the largest entry first keeps the squares inside float32's range.
    is_row = (x.abs() > noise).any(-1, keepdim=True)
    largest = x.abs().amax(-1, keepdim=True)
    scaled = x / torch.where(is_row, largest, torch.inf)
    scaled_norm = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    scaled.div_(torch.where(is_row, scaled_norm, 1.0))
    # Which way a row goes must not depend on the rows beside it.
    return torch.where(is_plain, x / norm, scaled)


def plain_norms(x: Tensor, noise: Tensor | float = 0.0) -> tuple[Tensor, Tensor | None]:
    """Norms ``(..., n, 1)``, and whether they are far from noise and from over- and underflow.

    None where a look at the values shows that all of them are.
    """
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    if is_at_hand(x) and x.numel():
        most_noise = float(noise.max()) if isinstance(noise, Tensor) else noise
        if are_plain(norm, most_noise * x.shape[-1] ** 0.5):
            return norm, None
    highest_noise = noise.amax(-1, keepdim=True) if isinstance(noise, Tensor) else noise
    low, high = PLAIN
    is_plain = (norm > low) & (norm < high) & (norm > highest_noise * x.shape[-1] ** 0.5)
    return norm, is_plain


def row_lengths(x: Tensor, noise: Tensor | float = 0.0) -> Tensor:
    """Norms ``(..., n, 1)`` whose squares may over- or underflow; 0 for nothing but ``noise``."""
    length, is_plain = plain_norms(x, noise)
    if is_plain is not None:
        is_odd = ~is_plain[..., 0]
        odd = x[is_odd]
        length[is_odd] = (odd * unit_rows(odd, noise)).sum(-1, keepdim=True)
    return length


def even_out(x: Tensor, where: Tensor) -> Tensor:
    """Rows ``(B, n, d)``, scaled to unit norm in the tasks ``(B,)`` where they should be."""
    if not bool(where.any()):
        return x
    units = unit_rows(x)
    return units if bool(where.all()) else torch.where(where[:, None, None], units, x)


def are_plain(norms: Tensor, noise: float = 0.0) -> bool:
    """Whether all norms are far from ``noise`` and from over- and underflow."""
    low, high = extremes(norms)
    return max(PLAIN[0], noise) < low and high < PLAIN[1]


def is_at_hand(x: Tensor) -> bool:
    """Whether a look at the values is free: plain CPU tensors in NumPy's types."""
    is_plain = type(x) is Tensor and x.is_cpu and not x.requires_grad
    return is_plain and x.dtype in _NUMPY_FLOATS


def prepare_rows(x: Tensor, center: Tensor | None, normalize: bool) -> Tensor:
    """Centre rows and put them on the unit sphere."""
    x, noise = center_rows(x, center)
    if not normalize:
        return x
    return unit_rows(x, noise, out=None if center is None else x)


def euclidean_distances(rows: Tensor, points: Tensor) -> Tensor:
    """Euclidean distances ``(B, n, m)``, from differences.

    Expanding the square would lose half the digits of a small distance, and rows that repeat a
    point would not be at distance 0.
    """
    return torch.cdist(rows, points, compute_mode="donot_use_mm_for_euclid_dist")


def squared_distances(rows: Tensor, points: Tensor) -> Tensor:
    """``(B, n, m)``, out of products: fast, and precise for what lies near the origin."""
    squares = rows.square().sum(-1)[..., None] + points.square().sum(-1)[..., None, :]
    return squares - 2 * product(rows, points.mT)


def product(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b`` where one side has a row for each class; alone, or for each of many tasks.

    On products as narrow as that NumPy's BLAS takes half to nine tenths of the time of torch's. It
    also finds that the square of a matrix is symmetric. With very few classes, a product with a
    vector for each of them takes two thirds of that, also of many tasks.
    """
    # Threads of torch share out the tasks.
    is_alone = a.ndim == 2 or a.shape[0] == 1 or torch.get_num_threads() == 1
    if not (is_alone and is_at_hand(a) and is_at_hand(b)):
        return a @ b
    left, right = a.numpy(), b.numpy()
    if a.shape[-2] <= VERY_FEW:
        return torch.from_numpy((left[..., None, :] @ right[..., None, :, :])[..., 0, :])
    if b.shape[-1] <= VERY_FEW:
        return product(b.mT, a.mT).mT.contiguous()
    return a @ b if a.ndim > 2 and a.shape[0] > 1 else torch.from_numpy(left @ right)


def extremes(x: Tensor) -> tuple[float, float]:
    """The lowest and the highest value; NaN if there is one.

    NumPy takes a third of torch's time on one thread.
    """
    if is_at_hand(x) and not pays_threads(x.numel()):
        return float(x.numpy().min()), float(x.numpy().max())
    low, high = torch.aminmax(x)
    return float(low), float(high)


def ascending(x: Tensor) -> Tensor:
    """Values sorted along the last axis; NumPy takes a thirtieth of torch's time on the CPU."""
    return torch.from_numpy(np.sort(x.numpy())) if is_at_hand(x) else x.sort(-1).values


def rising_order(x: Tensor) -> Tensor:
    """Places of the values in rising order along the last axis; as `ascending`."""
    return torch.from_numpy(np.argsort(x.numpy())) if is_at_hand(x) else x.argsort(-1)


def one_hot(labels: Tensor, n_classes: int, dtype: torch.dtype) -> Tensor:
    """``(B, s)`` class indices to ``(B, s, K)``; a label of -1 gives a zero row."""
    return (labels[..., None] == torch.arange(n_classes, device=labels.device)).to(dtype)


def pick_rows(rows: Tensor, index: Tensor) -> Tensor:
    """Rows ``(B, m, d)`` at an index ``(B, n)`` of each task, ``(B, n, d)``."""
    return rows.gather(1, index[..., None].expand(-1, -1, rows.shape[-1]))


def only_classes(support, labels):
    """Support ``(..., s, d)`` and labels ``(..., s)`` of one task without its known negatives."""
    is_class = labels.reshape(-1) >= 0
    if bool(is_class.all()):
        return support, labels
    return support[..., is_class, :], labels[..., is_class]


def class_means(support: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    """Mean of each class's support rows, ``(B, K, d)``."""
    membership = one_hot(labels, n_classes, support.dtype)
    return product(membership.mT, support) / membership.sum(-2)[..., None].clamp_min(1)


def unit_prototypes(weighted_sum: Tensor, weights: Tensor) -> Tensor:
    """Put weighted sums on the unit sphere; one that cancels out (below 1e-6) becomes zero."""
    norm = torch.linalg.vector_norm(weighted_sum, dim=-1)
    return weighted_sum / norm.masked_fill(norm <= 1e-6 * weights, torch.inf)[..., None]


def over_classes(softmax: Callable[[Tensor, int], Tensor], logits: Tensor) -> Tensor:
    """``torch.softmax`` or ``torch.log_softmax`` over the last axis.

    Of a few classes, torch takes a third of the time along an axis that is not the last.
    """
    if logits.shape[-1] < min(A_VECTOR, logits.shape[-2]):
        return softmax(logits.mT, -2).mT
    return softmax(logits, -1)


def safe_log(shares: Tensor) -> Tensor:
    """Logarithm that stays finite where a share has underflowed."""
    return shares.clamp_min(torch.finfo(shares.dtype).tiny).log()
