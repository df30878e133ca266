"""What may go on at the same time: worker reports and the supervisor's passes meet all the time."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection
from typing import Any

import pytest
from django.db import connection, transaction

from desktops.models import Worker
from runs.assignments import RunHandler
from runs.models import Run
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_pass_that_commits_an_offer_does_not_wait_for_a_report_in_the_making(
    new_run: Callable[..., Run], worker: PaperWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report has the worker's row and wants the run's; the pass has the run's, and its commit checks that the
    worker of the new assignment is there. If that check waited, each would wait for the other."""
    new_run()
    one_pass()
    seen: list[object] = []
    batch = RunHandler.batch

    def check_meanwhile(handler: RunHandler, assignments: Collection[uuid.UUID]) -> Any:
        other = threading.Thread(target=lambda: seen.append(_foreign_key_check(worker.worker)))
        other.start()
        other.join()
        return batch(handler, assignments)

    monkeypatch.setattr(RunHandler, "batch", check_meanwhile)
    worker.start(worker.offered()[0])
    assert seen
    assert set(seen) == {True}


def _foreign_key_check(worker: Worker) -> bool:
    """What PostgreSQL does for a row that refers to the worker, but without waiting; in a connection of its own."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT 1 FROM desktops_worker WHERE id = %s FOR KEY SHARE NOWAIT", [str(worker.pk)]
            )
            return cursor.fetchone() is not None
    finally:
        connection.close()
