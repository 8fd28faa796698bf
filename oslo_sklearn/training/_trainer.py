"""The loop that trains a head: episodes in batches, a held-out check, early stopping, resuming.

Every step draws from its own seed, so that a run which continues from a checkpoint repeats nothing
and misses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .._files import load_tensors, save_tensors, write_whole
from .._progress import progress_bar
from ._episodes import EpisodePool, Episodes, seed_of

STEPS_PER_CHECK = 25
_N_CHECK_BATCHES = 8  # of episodes, the same at each check
_FORMAT = 1
_COUNTS = {"step": int, "n_since_best": int, "is_done": bool, "curve": list}
_KINDS = {
    **{"format": int, "fingerprint": str, "seed": int, "params": dict, "best": dict},
    **{"optimizer": dict, **_COUNTS},
}
_TRAIN, _DROP, _CHECK = range(3)  # streams of random numbers

LossFunction = Callable[[dict[str, Tensor], Episodes, Callable | None], tuple[Tensor, Tensor]]


@dataclass
class Recipe:
    """How a method is trained.

    ``loss(params, episodes, drop)`` returns the loss and the logits of the known classes; ``drop``
    is None where nothing is to be dropped. ``rates`` are learning rates of single parameters, 0
    for those that stay; all others have ``learning_rate``.
    """

    loss: LossFunction
    n_episodes: int
    batch_size: int
    learning_rate: float
    dropout: float
    patience: int
    seed: int
    rates: dict[str, float] = field(default_factory=dict)


@dataclass
class Progress:
    """Where a run stands; what a checkpoint holds."""

    params: dict[str, Tensor]
    best: dict[str, Tensor]
    optimizer: torch.optim.Optimizer
    step: int = 0
    n_since_best: int = 0
    is_done: bool = False
    # step, training loss since the last check, held-out loss, held-out accuracy
    curve: list[list[float]] = field(default_factory=list)


def train(
    start: dict[str, Tensor],
    pool: EpisodePool,
    held_out: EpisodePool,
    recipe: Recipe,
    *,
    fingerprint: str,
    checkpoint_path=None,
    progress: bool = True,
) -> tuple[dict[str, Tensor], list[list[float]]]:
    """Train from ``start``; return the parameters of the best check, and the curve of checks."""
    state = _begin(start, recipe)
    if checkpoint_path is not None and os.path.exists(checkpoint_path):
        _restore(state, checkpoint_path, fingerprint, recipe.seed)
    n_steps = -(-recipe.n_episodes // recipe.batch_size)
    checks = [
        held_out.draw(recipe.batch_size, seed_of(recipe.seed, _CHECK, i))
        for i in range(0 if state.is_done else _N_CHECK_BATCHES)
    ]
    sizes = {"total": n_steps * recipe.batch_size, "initial": state.step * recipe.batch_size}
    with progress_bar(**sizes, unit=" episodes", enabled=progress) as bar:
        if not state.curve and not state.is_done:
            _check(state, checks, recipe, float("nan"))
        losses: list[float] = []  # since the last check
        while not state.is_done:
            losses.append(_take_step(state, pool, recipe))
            bar.update(recipe.batch_size)
            loss, accuracy = sum(losses) / len(losses), state.curve[-1][3]
            shown = {"loss": f"{loss:.3f}", "held-out accuracy": f"{accuracy:.3f}"}
            bar.set_postfix(shown, refresh=False)
            is_last = state.step >= n_steps
            if is_last or state.step % STEPS_PER_CHECK == 0:
                _check(state, checks, recipe, loss)
                losses.clear()
                state.is_done = is_last or state.n_since_best >= recipe.patience
                if checkpoint_path is not None:
                    _store(state, checkpoint_path, fingerprint, recipe.seed)
    return state.best, state.curve


def _begin(start: dict[str, Tensor], recipe: Recipe) -> Progress:
    params = {name: tensor.clone() for name, tensor in start.items()}
    groups = [
        {"params": [tensor.requires_grad_()], "lr": rate}
        for name, tensor in params.items()
        if (rate := recipe.rates.get(name, recipe.learning_rate))
    ]
    return Progress(params, _copy(params), torch.optim.Adam(groups))


def _take_step(state: Progress, pool: EpisodePool, recipe: Recipe) -> float:
    episodes = pool.draw(recipe.batch_size, seed_of(recipe.seed, _TRAIN, state.step))
    drop = _dropout(recipe.dropout, seed_of(recipe.seed, _DROP, state.step))
    loss, _ = recipe.loss(state.params, episodes, drop)
    state.optimizer.zero_grad()
    loss.backward()
    state.optimizer.step()
    state.step += 1
    return loss.item()


def _dropout(share: float, seed: int) -> Callable | None:
    if not share:
        return None
    generator = torch.Generator().manual_seed(seed)

    def drop(x: Tensor) -> Tensor:
        kept = torch.rand(x.shape, generator=generator).to(x.device) >= share
        return x * kept / (1 - share)

    return drop


@torch.no_grad()
def _check(state: Progress, checks: list[Episodes], recipe: Recipe, training_loss: float) -> None:
    """Measure loss and accuracy on the held-out episodes; keep the parameters if they are best."""
    losses, accuracies = [], []
    for episodes in checks:
        loss, logits = recipe.loss(state.params, episodes, None)
        losses.append(loss)
        accuracies.append((logits.argmax(-1) == episodes.known_labels).float().mean())
    loss, accuracy = (float(torch.stack(values).mean()) for values in (losses, accuracies))
    is_best = all(loss < row[2] for row in state.curve)
    state.curve.append([float(state.step), training_loss, loss, accuracy])
    state.n_since_best = 0 if is_best else state.n_since_best + 1
    if is_best:
        state.best = _copy(state.params)


def _copy(params: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in params.items()}


def _store(state: Progress, path, fingerprint: str, seed: int) -> None:
    content = {
        "format": _FORMAT,
        "fingerprint": fingerprint,
        "seed": seed,
        "params": _copy(state.params),
        "best": state.best,
        "optimizer": state.optimizer.state_dict(),
        **{name: getattr(state, name) for name in _COUNTS},
    }
    write_whole(path, lambda file: save_tensors(content, file))


def stored_seed(path) -> int | None:
    """The seed of the run that a checkpoint belongs to, if there is a checkpoint."""
    return _read(path)["seed"] if os.path.exists(path) else None


def _read(path) -> dict:
    content = load_tensors(path, "checkpoint_path")
    is_whole = isinstance(content, dict) and all(
        isinstance(content.get(name), kind) for name, kind in _KINDS.items()
    )
    if not is_whole or content["format"] != _FORMAT or not content["curve"]:
        raise ValueError(f"checkpoint_path: {os.fspath(path)!r} is not a checkpoint of fit_base.")
    return content


def _restore(state: Progress, path, fingerprint: str, seed: int) -> None:
    content = _read(path)
    if (content["fingerprint"], content["seed"]) != (fingerprint, seed):
        raise ValueError(
            f"checkpoint_path: {os.fspath(path)!r} belongs to a run with other data or settings; "
            "give another path, or remove the file."
        )
    try:
        with torch.no_grad():
            for name, tensor in state.params.items():
                tensor.copy_(content["params"][name])
                state.best[name].copy_(content["best"][name])
        state.optimizer.load_state_dict(content["optimizer"])
        curve = torch.tensor(content["curve"], dtype=torch.float64)
        content["curve"] = curve.reshape(-1, 4).tolist()
    except Exception as error:  # crafted files raise nearly anything
        raise ValueError(f"checkpoint_path: {os.fspath(path)!r} is damaged: {error}.") from error
    for name in _COUNTS:
        setattr(state, name, content[name])
