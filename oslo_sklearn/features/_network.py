"""Whether weights can be downloaded at all, found out in a moment."""

from __future__ import annotations

import socket
import threading
import urllib.request
from contextlib import contextmanager
from urllib.parse import urlsplit

from oslo_sklearn._optional import require

_SECONDS = 1.5  # to wait for an answer


def is_reachable(url: str) -> bool:
    """Whether a connection to the host of this address can be opened; True behind a proxy."""
    if urllib.request.getproxies():
        return True
    parts, answers = urlsplit(url), []

    def connect():
        port = parts.port or (80 if parts.scheme == "http" else 443)
        try:
            socket.create_connection((parts.hostname, port), timeout=_SECONDS).close()
        except OSError:
            return
        answers.append(True)

    # In a thread: the search for a name has no time limit of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return bool(answers)


@contextmanager
def no_retries_offline():
    """Let the hub look into its cache alone where it cannot be reached.

    It would try ten times, with growing pauses, for about a minute.
    """
    constants = require("huggingface_hub.constants", "features")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not is_reachable(constants.ENDPOINT)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
