"""Progress bars with the time left."""

from __future__ import annotations

_LONG = 5  # seconds, before which a fit shows nothing


def progress_bar(tasks=None, *, enabled: bool = True, **options):
    """A bar of tqdm on stderr, on terminals and in notebooks, and none where output is piped.

    It is iterated over, or updated. Inside another bar it disappears when it is done.
    """
    from tqdm.auto import tqdm

    in_notebook = any("notebook" in base.__module__ for base in tqdm.__mro__)
    disable = (False if in_notebook else None) if enabled else True
    return tqdm(tasks, disable=disable, leave=None, **options)


def rows_to_read(name: str, n_rows: int, n_readings: int):
    """A bar for long fits, in rows; each row is read `n_readings` times."""
    return progress_bar(total=n_rows * n_readings, desc=name, unit=" rows", delay=_LONG)
