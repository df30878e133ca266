"""An engine of made-up desktops, a spool, and orders played on them."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta

from desktops.protocol.attempt import AttemptOrder, PrefixOrder, prefix_adapter, record_adapter
from desktops.protocol.hold import HoldOrder, hold_adapter
from desktops.worker.attempt import AttemptRun
from desktops.worker.blobs import BlobStore
from desktops.worker.holding import HoldRun
from desktops.worker.prefix import PrefixRun
from desktops.worker.ready import Ready
from desktops.worker.recorder import Recorder
from desktops.worker.spool import Spool
from desktops.worker.states import States
from desktops.worker.testing_desktop import FakeEngine

from .orders import hold_order, order, prefix_order


class Table:
    def __init__(self, tmp_path, engine=None) -> None:
        self.engine = engine or FakeEngine()
        self.spool = Spool(tmp_path / "spool", ballast=0)
        self.blobs = BlobStore(tmp_path / "blobs")
        self.states = States(self.engine, tmp_path / "states", limit_mb=10_000)
        self.ready = Ready(self.engine, self.states, tmp_path, most=0)
        self.closing = threading.Event()
        self.taken: list[str] = []

    def made(self, **changes):
        return AttemptRun(AttemptOrder.model_validate(order(**changes)), **self._surroundings("attempt"))

    def prefix(self, **changes):
        return PrefixRun(PrefixOrder.model_validate(prefix_order(**changes)), **self._surroundings("prefix"))

    def computer(self, **changes):
        return HoldRun(HoldOrder.model_validate(hold_order(**changes)), **self._surroundings("computer"))

    def play(self, **changes):
        self.made(**changes).run()
        return self.records()

    def play_prefix(self, **changes):
        self.prefix(**changes).run()
        return self.records()

    def _surroundings(self, kind):
        name = f"{kind}-{len(self.taken) + 1}"
        self.spool.take(name, 1, kind, datetime.now(UTC))
        self.taken.append(name)
        return {
            "engine": self.engine,
            "engine_name": "fake",
            "states": self.states,
            "ready": self.ready,
            "recorder": Recorder(self.spool, self.blobs, assignment=name, epoch=1),
            "paid_until": datetime.now(UTC) + timedelta(minutes=5),
            "closing": self.closing,
        }

    def records(self, number=-1):
        """Every record of one order, checked against the protocol, after what must hold for any."""
        name = self.taken[number]
        items = [item for item in self.spool.after(0, limit=500) if item.assignment == name]
        kind = name.partition("-")[0]
        adapter = {"prefix": prefix_adapter, "computer": hold_adapter}.get(kind, record_adapter)
        records = [adapter.validate_python(json.loads(item.record)) for item in items]
        told = kinds(records)
        last = "hold_ended" if kind == "computer" else f"{kind}_ended"
        assert told.count(last) == 1
        assert told[-1] == last
        assert told.count("computer_started") == told.count("computer_stopped")
        assert [desk for desk in self.engine.list_owned() if desk.computer not in self.ready] == []
        for item, record in zip(items, records, strict=True):
            if hasattr(record, "screenshot"):
                assert record.screenshot in item.blobs
                assert self.blobs.read(record.screenshot).startswith(b"\x89PNG")
        return records


def kinds(records):
    return [record.kind for record in records]


def one(records, kind):
    (found,) = [record for record in records if record.kind == kind]
    return found
