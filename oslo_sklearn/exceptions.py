"""Warnings that can be filtered by their category."""


class TaskWarning(UserWarning):
    """The task does not suit the method.

    Raised by ``fit(support_X, support_y, query_X)`` for one task, never by `evaluate`.

    Examples
    --------
    >>> import warnings
    >>> from oslo_sklearn.exceptions import TaskWarning
    >>> warnings.simplefilter("ignore", TaskWarning)
    """


__all__ = ["TaskWarning"]
