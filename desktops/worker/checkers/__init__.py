"""Checkers: read a desktop after an attempt and give a reward with the evidence for it."""

from .errors import ArtefactMissing, CheckerBroken, Unreadable
from .evaluate import Judgement, checker_digest, evaluate

__all__ = ["ArtefactMissing", "CheckerBroken", "Judgement", "Unreadable", "checker_digest", "evaluate"]
