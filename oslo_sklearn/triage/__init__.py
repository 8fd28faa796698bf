"""Triage: see the pile, correct it, run again."""

from ._run import Triage, triage

__all__ = ["Triage", "triage"]
