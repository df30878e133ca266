"""Everything an attempt reports goes through here: files to the blob store, records to the spool."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from desktops.protocol.attempt import (
    AttemptEnded,
    ComputerReady,
    ComputerStarted,
    ComputerStopped,
    Evidence,
    Forked,
    PrefixEnded,
    SetupAwaited,
    SetupDone,
    StateSaved,
    StepTaken,
    TakenOver,
    Verdict,
    Verifying,
)
from desktops.protocol.hold import Answered, HoldEnded

from .blobs import BlobStore
from .spool import MAX_RECORD, Spool

Record = (
    Answered
    | AttemptEnded
    | ComputerReady
    | ComputerStarted
    | ComputerStopped
    | Forked
    | HoldEnded
    | PrefixEnded
    | SetupAwaited
    | SetupDone
    | StateSaved
    | StepTaken
    | TakenOver
    | Verdict
    | Verifying
)

LONGEST_VALUE = 32 * 1024  # bytes of JSON of one found or expected value; the rest goes into a file


class Recorder:
    """The one way out for one assignment at one epoch. One thread at a time."""

    def __init__(self, spool: Spool, blobs: BlobStore, *, assignment: str, epoch: int) -> None:
        self._spool, self._blobs = spool, blobs
        self._assignment, self._epoch = assignment, epoch
        self._unnamed: list[str] = []

    def keep(self, data: bytes) -> str:
        """Store a file for the next record that names it; gives its digest. Raises SpoolFull."""
        digest = self._blobs.put(data)
        self._unnamed.append(digest)
        return digest

    def intend(self, computer: str, at: datetime) -> None:
        """A desktop is about to be made. Raises SpoolFull."""
        self._spool.intend(self._assignment, self._epoch, computer, at)

    def record(self, record: Record, *, blobs: list[str] | None = None) -> int:
        """On disk when this returns. `blobs` are the digests it names. Raises SpoolFull."""
        if isinstance(record, Verdict):
            record = self._bounded(record)
        computer = None
        if isinstance(record, ComputerStarted):
            computer = (record.computer, True)
        elif isinstance(record, ComputerStopped):
            computer = (record.computer, False)
        number = self._spool.append(
            self._assignment,
            self._epoch,
            redact(record.model_dump(mode="json")),
            blobs=blobs if blobs is not None else _named(record),
            last=isinstance(record, AttemptEnded | PrefixEnded | HoldEnded),
            computer=computer,
        )
        self._blobs.settled(self._unnamed)
        self._unnamed.clear()
        return number

    def _bounded(self, verdict: Verdict) -> Verdict:
        """Values too long for a frame become artefacts: a large document is never a lost verdict."""
        bounded = [self._bounded_evidence(evidence) for evidence in verdict.evidence]
        short = verdict.model_copy(update={"evidence": bounded})
        if len(short.model_dump_json().encode()) > MAX_RECORD // 2:
            everything = self.keep(json.dumps([item.model_dump(mode="json") for item in bounded]).encode())
            names = {name: digest for item in bounded for name, digest in item.artefacts.items()}
            whole = Evidence(
                label="all",
                metric="",
                reward=verdict.reward,
                artefacts=names | {"evidence.json": everything},
                note=f"{len(bounded)} pieces of evidence, whole in evidence.json",
            )
            short = verdict.model_copy(update={"evidence": [whole]})
        return short

    def _bounded_evidence(self, evidence: Evidence) -> Evidence:
        changed: dict[str, Any] = {}
        artefacts = dict(evidence.artefacts)
        for side in ("found", "expected"):
            text = json.dumps(getattr(evidence, side), ensure_ascii=False, default=repr)
            if len(text.encode()) > LONGEST_VALUE:
                artefacts[f"{side}.json"] = self.keep(text.encode())
                changed[side] = text[:500] + f" … {len(text)} characters, whole in {side}.json"
        return evidence.model_copy(update=changed | {"artefacts": artefacts}) if changed else evidence


def redact(record: dict[str, Any]) -> dict[str, Any]:
    """Where secrets are taken out of what leaves this machine; a scripted test has none."""
    return record


def _named(record: Record) -> list[str]:
    """Every digest a record names."""
    named = [record.screenshot] if hasattr(record, "screenshot") else []
    if isinstance(record, StateSaved) and record.attestation is not None:
        named.append(record.attestation.screenshot)
    if isinstance(record, Verdict):
        named += [digest for evidence in record.evidence for digest in evidence.artefacts.values()]
    return named
