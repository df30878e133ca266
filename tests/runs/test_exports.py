"""Exports of a run: the same attempts in every format, and the same numbers as the API and the page."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from arro3.io import read_parquet
from asgiref.sync import async_to_sync
from django.test import Client
from rest_framework.test import APIClient

from console.models import User, Workspace
from runs import exports, provenance
from runs.api.serializers import AttemptSerializer
from runs.models import Run
from tests.factories import AttemptFactory, AttemptTryFactory, EventFactory, RunFactory, recount

pytestmark = pytest.mark.django_db
ClientFor = Callable[[User], Client]
Api = Callable[..., APIClient]


@pytest.fixture
def run(workspace: Workspace) -> Run:
    run = RunFactory(workspace=workspace, status="running", planned=6)
    good = AttemptFactory(run=run, valid=True)
    row = AttemptTryFactory(attempt=good)
    good.computer, good.worker = row.computer, row.computer.worker
    good.save()
    AttemptFactory(run=run, valid=True, reward=-0.125)
    AttemptFactory(run=run, faulty=True, invalid_reasons=["desktop_lost", "worker_lost"])
    AttemptFactory(
        run=run, status="done", verifier="invalid", checker_error='=HYPERLINK("http://x","a, b")\nsecond line'
    )
    AttemptFactory(run=run)
    EventFactory.create_batch(3, run=run)
    return recount(run)


def body(reply: Any) -> bytes:
    return b"".join(reply)


def parquet_rows(data: bytes) -> list[dict[str, Any]]:
    table = read_parquet(io.BytesIO(data)).read_all()
    columns = {name: [value.as_py() for value in table.column(name)] for name in table.column_names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def test_the_columns_are_the_apis_fields() -> None:
    assert list(exports.COLUMNS) == AttemptSerializer.Meta.fields


def test_json_lines_are_what_the_api_lists(api: Api, run: Run) -> None:
    reply = api("runs:read").get(f"/v1/runs/{run.pk}/attempts.jsonl")
    assert reply["Content-Disposition"] == f'attachment; filename="run-{run.number}-attempts.jsonl"'
    rows = [json.loads(line) for line in body(reply).splitlines()]
    assert rows == api().get(f"/v1/runs/{run.pk}/attempts").json()["results"]


def test_csv_and_parquet_say_the_same(api: Api, run: Run) -> None:
    listed = api().get(f"/v1/runs/{run.pk}/attempts").json()["results"]
    parquet = parquet_rows(body(api().get(f"/v1/runs/{run.pk}/attempts.parquet")))
    sheet = list(
        csv.DictReader(io.StringIO(body(api().get(f"/v1/runs/{run.pk}/attempts.csv")).decode(), newline=""))
    )
    assert len(parquet) == len(sheet) == len(listed) == 5
    for one, row, line in zip(listed, parquet, sheet, strict=True):
        for name, kind in exports.COLUMNS.items():
            value = (
                row[name].isoformat().replace("+00:00", "Z") if kind == "time" and row[name] else row[name]
            )
            assert value == one[name], name
            if kind in ("count", "number"):
                assert line[name] == ("" if one[name] is None else str(one[name]))
        assert line["invalid_reasons"].split() == one["invalid_reasons"]
        assert list(line) == list(one)


def test_the_counts_of_an_export_are_the_runs(api: Api, run: Run) -> None:
    rows = [json.loads(line) for line in body(api().get(f"/v1/runs/{run.pk}/attempts.jsonl")).splitlines()]
    counts = api().get(f"/v1/runs/{run.pk}").json()["counts"]
    for column, values in (
        ("status", ("running", "verifying", "done", "error", "cancelled")),
        ("verifier", ("valid", "invalid")),
        ("outcome", ("success", "fail")),
    ):
        for value in values:
            assert sum(row[column] == value for row in rows) == counts[value], value


def test_a_text_that_would_be_a_formula_is_text(api: Api, run: Run) -> None:
    text = body(api().get(f"/v1/runs/{run.pk}/attempts.csv")).decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert rows[3]["checker_error"].startswith("'=HYPERLINK")
    assert rows[1]["reward"] == "-0.125"  # a number stays one


def test_filters_apply_to_the_file(api: Api, run: Run) -> None:
    text = body(api().get(f"/v1/runs/{run.pk}/attempts.csv?verifier=valid")).decode()
    assert len(text.splitlines()) == 3
    assert api().get(f"/v1/runs/{run.pk}/attempts.csv?verifier=maybe").status_code == 422


def test_no_other_format_is_there(api: Api, run: Run) -> None:
    assert api().get(f"/v1/runs/{run.pk}/attempts.xlsx").status_code == 404


@pytest.mark.parametrize("form", exports.FORMATS)
def test_many_rows_come_whole(run: Run, form: exports.Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "CHUNK", 2)
    AttemptFactory.create_batch(5, run=run, valid=True)
    data = body(exports.attempts_file(run, run.attempts.all(), form))
    if form == "parquet":
        assert [row["number"] for row in parquet_rows(data)] == list(range(1, 11))
    elif form == "jsonl":
        assert [json.loads(line)["number"] for line in data.splitlines()] == list(range(1, 11))
    else:
        read = csv.DictReader(io.StringIO(data.decode(), newline=""))
        assert [row["number"] for row in read] == [str(n) for n in range(1, 11)]


def test_a_run_without_attempts_gives_files_without_rows(workspace: Workspace) -> None:
    run = RunFactory(workspace=workspace)
    assert parquet_rows(body(exports.attempts_file(run, run.attempts.all(), "parquet"))) == []
    assert body(exports.attempts_file(run, run.attempts.all(), "jsonl")) == b""
    assert body(exports.attempts_file(run, run.attempts.all(), "csv")).decode().strip() == ",".join(
        exports.COLUMNS
    )


def test_it_streams_under_asgi_piece_by_piece(run: Run) -> None:
    made: list[int] = []

    def pieces() -> Any:
        for n in range(3):
            made.append(n)
            yield b"%d" % n

    async def read() -> bytes:
        reply = exports.Streamed(pieces(), content_type="text/plain", filename="x")
        seen = b""
        async for piece in reply:
            assert len(made) == int(piece) + 1  # not one more than was sent
            seen += piece
        return seen

    assert async_to_sync(read)() == b"012"


def test_the_log_hashes_to_the_digest_that_is_signed(api: Api, run: Run) -> None:
    log = body(api().get(f"/v1/runs/{run.pk}/events.jsonl"))
    assert [json.loads(line) for line in log.splitlines()] == api().get(f"/v1/runs/{run.pk}/events").json()[
        "results"
    ]
    signed = {row["name"]: row["digest"]["sha256"] for row in provenance.statement(run)["subject"]}
    assert signed[f"runs/{run.pk}/events"] == hashlib.sha256(log).hexdigest()


def test_the_rollouts_page_links_the_files_of_what_it_lists(
    run: Run, member: User, client_for: ClientFor
) -> None:
    page = client_for(member).get(f"/w/lab/runs/{run.number}/rollouts/?verifier=valid").content.decode()
    for form in exports.FORMATS:
        assert f'href="/w/lab/runs/{run.number}/attempts.{form}?verifier=valid"' in page
    reply = client_for(member).get(f"/w/lab/runs/{run.number}/attempts.jsonl?verifier=valid")
    assert [json.loads(line)["number"] for line in body(reply).splitlines()] == [1, 2]


@pytest.mark.parametrize("form", exports.FORMATS)
def test_an_outsider_finds_no_file(run: Run, outsider: User, client_for: ClientFor, form: str) -> None:
    assert client_for(outsider).get(f"/w/lab/runs/{run.number}/attempts.{form}").status_code == 404


def test_another_workspaces_token_finds_no_file(
    run: Run, outsider: User, other_workspace: Workspace, api: Api
) -> None:
    stranger = api(user=outsider, workspace=other_workspace)
    assert stranger.get(f"/v1/runs/{run.pk}/attempts.csv").status_code == 404
    assert stranger.get(f"/v1/runs/{run.pk}/events.jsonl").status_code == 404
