from __future__ import annotations

import pytest

from desktops.worker import session

from .table import Table


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "INSIST_SECONDS", 0.02)
    table = Table(tmp_path)
    yield table
    table.spool.close()
