"""What the methods that are trained on base classes share."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from torch import Tensor

from .._array_api import as_numpy
from .._devices import check_device, choose_device
from .._files import content_digest
from .._typing import Labels, PathLike, RandomState, RowsLike, Self
from .._validation import check_counts, check_labels, check_rows, take_rows
from ..base import FewShotOpenSetClassifier
from ..solvers.geometry import class_means
from ..training import (
    LAYOUTS,
    EpisodePool,
    Episodes,
    EpisodeShape,
    Head,
    Recipe,
    hold_out_classes,
    seed_of,
    stored_seed,
    train,
)

_START, _HOLD_OUT = 100, 101  # streams of random numbers beside the trainer's


class EpisodicClassifier(FewShotOpenSetClassifier):
    """A head trained on episodes of base classes, then few-shot tasks as with any method.

    A method names the ``_kind`` of its head and the named tuple ``_net`` of its weights. Beside
    ``_solve`` and ``_infer``, which get them from ``_weights(like)``, it writes ``_start_head`` and
    ``_episode_logits``.
    """

    _parameter_constraints = FewShotOpenSetClassifier._parameter_constraints | {
        "head": [Head, str, os.PathLike, None],
    }

    head: Head | PathLike | None
    _kind: str
    _net: Callable[..., Any]
    # Whether training episodes come with rows of further classes, for `_outlier_loss`.
    _open_episodes = False
    _learning_rate = 1e-3
    _dropout = 0.5
    # Learning rates of single parameters, by name.
    _rates: dict[str, float] = {}

    def _start_head(
        self, rows: Tensor, means: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Weights to start from, in the layout's order, given base rows and their class means."""
        raise NotImplementedError

    def _episode_logits(self, weights, means: Tensor, rows: Tensor, drop) -> Tensor:
        """Logits of rows for a batch of episodes with these class means."""
        raise NotImplementedError

    def _outlier_loss(self, logits: Tensor) -> Tensor:
        """What training minimises on rows of other classes, beside the cross-entropy."""
        raise NotImplementedError

    def _episode_loss(self, weights, episodes: Episodes, drop):
        """Loss of a batch of episodes, and the logits of the known classes' rows."""
        means = class_means(episodes.support, episodes.labels, episodes.n_classes)
        rows = [episodes.known, episodes.outliers] if self._open_episodes else [episodes.known]
        logits = self._episode_logits(weights, means, torch.cat(rows, 1), drop)
        known, outliers = logits.tensor_split([episodes.known.shape[1]], 1)
        loss = F.cross_entropy(known.flatten(0, 1), episodes.known_labels.flatten())
        if self._open_episodes:
            loss = loss + self._outlier_loss(outliers)
        return loss, known[..., : episodes.n_classes]

    def fit_base(
        self,
        base_X: RowsLike,
        base_y: Labels,
        *,
        n_episodes: int = 10_000,
        random_state: RandomState = None,
        progress: bool = True,
        checkpoint_path: PathLike | None = None,
        validation: tuple[RowsLike, Labels] | None = None,
        n_way: int = 5,
        n_shot: int = 1,
        n_query: int = 15,
        batch_size: int = 16,
        patience: int = 8,
    ) -> Self:
        """Train the head on labelled rows of base classes, which no later task contains.

        Training ends after ``n_episodes``, or after ``patience`` checks in a row without a better
        loss on held-out episodes. The head of the best check is kept. There is a check before the
        first step, and one every 25 steps.

        Parameters
        ----------
        base_X : array-like of shape (n_rows, n_features)
            Rows of the base classes, of the same kind as those of the tasks to come.
        base_y : array-like of shape (n_rows,)
            Their labels; each class needs ``n_shot + n_query`` rows.
        n_episodes : int, default=10000
            Episodes to train on at most.
        random_state : int, RandomState instance or None, default=None
            Seed of the start and of the episodes. An integer gives the same head each time.
        progress : bool, default=True
            Show a bar with the running loss and the held-out accuracy, on terminals and in
            notebooks.
        checkpoint_path : str or path-like, optional
            File for the state of the training at each check. If it exists, training continues
            from it.
        validation : tuple (X, y), optional
            Rows and labels of classes to check on. None: a fifth of the base classes, at least
            as many as an episode has, is held out.
        n_way : int, default=5
            Known classes of an episode; methods that learn from outliers draw as many again.
        n_shot : int, default=1
            Support rows per class.
        n_query : int, default=15
            Query rows per class.
        batch_size : int, default=16
            Episodes in a step.
        patience : int, default=8
            Checks without improvement after which to stop.

        Returns
        -------
        self : object
            With ``head_`` and ``training_curve_``. `clone` drops both: pass
            ``head=trained.head_`` to keep the head.
        """
        if self.head is not None:
            raise ValueError(
                "fit_base trains a new head, but this estimator was given one: set head=None."
            )
        self._check_params()
        check_counts(n_episodes=n_episodes, n_way=n_way, n_shot=n_shot, n_query=n_query)
        check_counts(batch_size=batch_size, patience=patience)
        shape = EpisodeShape(n_way, n_shot, n_query, self._open_episodes)
        rows, codes = self._check_base(base_X, base_y, shape, "base_X", "base_y")
        if validation is not None:
            if not isinstance(validation, tuple | list) or len(validation) != 2:
                raise ValueError(f"validation must be a tuple (X, y); got {type(validation)}.")
            held_rows, held_codes = self._check_base(
                *validation, shape, "validation[0]", "validation[1]", rows.shape[1]
            )
        seed = self._find_seed(random_state, checkpoint_path)
        settings = (n_episodes, *shape, batch_size, patience, validation is not None)
        data = (rows, codes) if validation is None else (rows, codes, held_rows, held_codes)
        if validation is None:
            is_held = hold_out_classes(codes, shape.n_classes, seed_of(seed, _HOLD_OUT))
            held_rows, held_codes = take_rows(rows, is_held), codes[is_held]
            rows, codes = take_rows(rows, ~is_held), codes[~is_held]
            codes = np.unique(codes, return_inverse=True)[1]

        device = choose_device(check_device(self.device), [rows], n_way * batch_size)
        rows, held_rows = rows.to(device), held_rows.to(device)
        names = list(LAYOUTS[self._kind])
        recipe = Recipe(
            loss=lambda found, *rest: self._episode_loss(self._net(*map(found.get, names)), *rest),
            n_episodes=n_episodes,
            batch_size=batch_size,
            learning_rate=self._learning_rate,
            dropout=self._dropout,
            patience=patience,
            seed=seed,
            rates=self._rates,
        )
        with torch.inference_mode(False), torch.enable_grad():
            best, curve = train(
                dict(zip(names, self._start(rows, codes, seed), strict=True)),
                EpisodePool(rows, codes, shape, self._prepare_together),
                EpisodePool(held_rows, held_codes, shape, self._prepare_together),
                recipe,
                fingerprint=self._fingerprint(settings, data),
                checkpoint_path=checkpoint_path,
                progress=progress,
            )
        if not np.isfinite(curve[0][2]):
            raise ValueError("base_X: the loss is not finite from the start; scale the features.")
        for name in set(vars(self)) - set(self.get_params(deep=False)):
            delattr(self, name)  # a task that was solved with another head is over
        self.head_ = self._trained = Head(self._kind, best)
        self.training_curve_ = np.array(curve)
        return self

    def save_head(self, path: PathLike) -> None:
        """Write the head to a file that ``head=path`` reads.

        Parameters
        ----------
        path : str or path-like
            ``.safetensors``, or any other ending for a file of ``torch.save``.
        """
        self._find_head().save(path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")  # a head alone answers nothing

    def _fit(self, support_X, support_y, query_X) -> None:
        self._check_params()
        self.head_ = self._resolve_head()
        super()._fit(support_X, support_y, query_X)

    def _resolve_head(self) -> Head:
        """The head that the parameters name, or the one that was trained."""
        head, name = self.head, type(self).__name__
        if head is None:
            head = getattr(self, "_trained", None)
        if head is None:
            raise NotFittedError(
                f"This {name} has no head. Train one with fit_base(base_X, base_y) on rows of "
                f"base classes, or pass {name}(head=...): a trained estimator's head_, or the "
                "path of a saved one."
            )
        if not isinstance(head, Head):
            untrained = isinstance(head, str) and head == "untrained"
            return Head(self._kind, {}) if untrained else Head.load(head, self._kind)
        if head.kind != self._kind:
            raise ValueError(f"head is a head of {head.kind}; {name} takes one of {self._kind}.")
        return head

    def _find_head(self) -> Head:
        # Many tasks at once are solved without a fit; after one, its head is the one in use.
        return self.head_ if hasattr(self, "head_") else self._resolve_head()

    def _weights(self, like: Tensor) -> Any:
        """Weights of the head; None for an untrained one."""
        head = self._find_head()
        if head.is_untrained:
            return None
        if head.n_features != like.shape[-1]:
            raise ValueError(
                f"support_X has {like.shape[-1]} features, but the head was trained on rows of "
                f"{head.n_features}."
            )
        return self._net(*head.tensors(like))

    # Base classes in.

    def _check_base(self, X, y, shape: EpisodeShape, X_name, y_name, n_features=None):
        scratch = clone(self)  # validation sets attributes, and training may fail later
        rows = check_rows(scratch, X, X_name, reset=True).float()
        if not bool(torch.isfinite(rows).all()):
            raise ValueError(f"{X_name} holds values too large for float32.")
        if n_features is not None and rows.shape[1] != n_features:
            raise ValueError(f"{X_name} has {rows.shape[1]} features, but base_X has {n_features}.")
        classes, codes = check_labels(y, len(rows), self, X_name, y_name)
        try:
            shape.splitter(1, 0).sample(classes[codes])
        except ValueError as error:
            raise ValueError(f"{y_name} does not allow such episodes: {error}") from error
        return rows, codes

    def _find_seed(self, random_state, checkpoint_path) -> int:
        if isinstance(random_state, numbers.Integral):
            return int(random_state)
        if random_state is None and checkpoint_path is not None:
            seed = stored_seed(checkpoint_path)
            if seed is not None:
                return seed
        return int(check_random_state(random_state).randint(2**31 - 1))

    def _start(self, rows: Tensor, codes: np.ndarray, seed: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(seed_of(seed, _START))
        with torch.no_grad():
            (rows,) = self._prepare_together([rows[None]])
            rows = rows[0]
            index = torch.from_numpy(codes).to(rows.device)
            counts = torch.bincount(index)[:, None]
            sums = torch.zeros(len(counts), rows.shape[1]).to(rows).index_add_(0, index, rows)
            weights = self._start_head(rows, sums / counts, generator)
            return tuple(weight.to(rows) for weight in weights)

    def _prepare_together(self, parts: list[Tensor]) -> list[Tensor]:
        """Prepare rows that belong to one task as those of a task are."""
        center = self._find_center(parts)
        return [self._prepare(part, center) for part in parts]

    def _fingerprint(self, settings: tuple, data: tuple) -> str:
        params = self.get_params(deep=False)
        center = params["center"]
        if center is not None and not isinstance(center, str):
            center = np.asarray(center, dtype=np.float64).tobytes()
        own = {name: params[name] for name in ("temperature", "open_weight") if name in params}
        recipe = repr((type(self)._kind, settings, center, self.normalize, own))
        return content_digest(recipe, *(np.ascontiguousarray(as_numpy(part)) for part in data))
