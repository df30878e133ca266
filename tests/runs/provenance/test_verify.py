"""The program that verifies a manifest: it agrees with an honest one and catches whatever was changed in it."""

from __future__ import annotations

import base64
import copy
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient
from scipy import stats

from console.actor import Actor
from console.api.signing import sign
from console.models import User, Workspace
from runs import provenance, scoring
from runs.actions.create import create_run
from runs.actions.retry import retry_invalid
from runs.models import Run
from runs.provenance import verify
from runs.supervisor import one_pass
from tests.factories import document
from tests.runs.paper_worker import PaperWorker
from tests.runs.provenance.conftest import end

pytestmark = pytest.mark.django_db
Verdict = Callable[..., tuple[bool, list[str]]]
QUICK = {
    "deadline": None,
    "database": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
}


def whole(run: Run) -> bytes:
    return b"".join(provenance.manifest(run))


def test_a_run_that_goes_on_verifies_as_far_as_it_is_known(played: Run, verdict: Verdict) -> None:
    assert verdict(whole(played)) == (True, [])


def test_a_run_that_has_ended_verifies(played: Run, verdict: Verdict) -> None:
    assert verdict(whole(end(played))) == (True, [])


def test_a_large_manifest_is_lines_and_verifies(
    played: Run, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = provenance.statement(played)
    monkeypatch.setattr(provenance, "INLINE", 10)
    with pytest.raises(provenance.NotEnded):
        provenance.manifest(played)
    lines = whole(end(played)).split(b"\n")
    assert [json.loads(line)["kind"] for line in lines[:-1]] == ["attempt"] * 12 + ["desktop"] * 11
    assert verdict(b"\n".join(lines)) == (True, [])
    statement = json.loads(base64.b64decode(json.loads(lines[-1])["payload"]))
    assert statement["subject"] == small["subject"]


def test_the_program_runs_alone(played: Run, keys: Path, tmp_path: Path) -> None:
    """As a reader runs it: from its download, in a folder that holds nothing of ours."""
    program, manifest = tmp_path / "deskyard-verify.py", tmp_path / "manifest.json"
    program.write_bytes(APIClient().get("/v1/provenance/deskyard-verify.py").content)
    manifest.write_bytes(whole(played))
    command = [sys.executable, "-I", str(program), str(manifest), "--keys", str(keys)]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "Everything holds." in told.stdout
    manifest.write_bytes(manifest.read_bytes().replace(b'"sig":"', b'"sig":"A'))
    assert subprocess.run(command, capture_output=True, cwd=tmp_path, timeout=60).returncode == 1


@pytest.mark.parametrize("missing", ["manifest", "keys", "events"])
def test_a_file_that_cannot_be_read_is_named(missing: str, played: Run, keys: Path, tmp_path: Path) -> None:
    manifest, events = tmp_path / "manifest.json", tmp_path / "events.jsonl"
    manifest.write_bytes(whole(played))
    events.write_bytes(b"")
    files = {"manifest": manifest, "keys": keys, "events": events}
    files[missing] = tmp_path / "gone"
    command = [sys.executable, "-I", str(Path(verify.__file__)), str(files["manifest"])]
    command += ["--keys", str(files["keys"]), "--events", str(files["events"])]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert told.returncode == 2
    assert told.stderr.endswith(f"{tmp_path / 'gone'} cannot be read: No such file or directory\n")


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        "{}",
        '{"keys": [1]}',
        '{"keys": {"a": 1}}',
        '{"keys": [{"keyid": "a", "public": "xyz"}]}',
        '{"keys": [{"keyid": "a", "public": "00"}]}',
        '{"keys": [{"keyid": [], "public": "00"}]}',
    ],
)
def test_a_file_of_other_things_than_keys_is_not_blamed_on_the_manifest(
    text: str, played: Run, keys: Path, verdict: Verdict
) -> None:
    keys.write_text(text)
    said = f"WRONG  {keys} does not hold the keys that a console answers at /v1/keys."
    assert verdict(whole(played)) == (False, [said])


def test_another_consoles_key_does_not_do(played: Run, verdict: Verdict, settings: Any, keys: Path) -> None:
    settings.DESKYARD_SIGNING_KEY = base64.b64encode(b"x" * 32).decode()
    assert verdict(whole(played)) == (
        False,
        ["WRONG  The key that signed it is not among the published keys."],
    )


def test_no_byte_can_be_changed(played: Run, verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    small = whole(played)
    end(played)
    monkeypatch.setattr(provenance, "INLINE", 10)
    large = whole(Run.objects.select_related("workspace", "budget").get(pk=played.pk))

    @settings(max_examples=300, **QUICK)
    @given(
        manifest=st.sampled_from([small, large]),
        place=st.floats(0, 1, exclude_max=True),
        # Most of it is the payload; the rest of the envelope stands in its last bytes.
        tail=st.booleans(),
        other=st.integers(1, 255),
    )
    def change(manifest: bytes, place: float, tail: bool, other: int) -> None:
        size = min(300, len(manifest)) if tail else len(manifest)
        at = len(manifest) - 1 - int(place * size)
        changed = manifest[:at] + bytes([manifest[at] ^ other]) + manifest[at + 1 :]
        holds, _ = verdict(changed)
        assert not holds, (at, manifest[at : at + 1], changed[at : at + 1])

    change()


@pytest.mark.parametrize("added", [b" ", b"\n", b"\r\n", b"\t"])
def test_not_even_a_blank_can_be_added(
    added: bytes, played: Run, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = whole(played)
    end(played)
    monkeypatch.setattr(provenance, "INLINE", 10)
    large = whole(Run.objects.select_related("workspace", "budget").get(pk=played.pk))
    for manifest in (small, large):
        inside = [at for at, byte in enumerate(manifest) if byte in b'{}[],:"'][-40:]
        for at in (0, *inside, len(manifest)):
            assert not verdict(manifest[:at] + added + manifest[at:])[0], at


def test_no_line_can_go_come_twice_or_trade_places(
    played: Run, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "INLINE", 10)
    lines = whole(end(played)).split(b"\n")
    for at in range(len(lines) - 1):
        assert not verdict(b"\n".join(lines[:at] + lines[at + 1 :]))[0]
        assert not verdict(b"\n".join(lines[: at + 1] + lines[at:]))[0]
        if at + 2 < len(lines):
            traded = [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]
            assert not verdict(b"\n".join(traded))[0]


FIGURES = ("counts", "cost", "figures")
# What a row says and a figure of the page rests on.
COLUMNS = ("status", "verifier", "outcome", "reward", "task", "number")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if inside is None:
        yield path
        return
    for key, part in inside:
        yield from leaves(part, (*path, key))


def other(value: Any) -> Any:
    """Something of its kind that it is not."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value + 0.001
        case None:
            return 0.5
        case str() if value.replace(".", "").isdigit():
            return f"{float(value) + 0.01:.2f}"
        case _:
            return f"{value}x"


def changed(statement: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    made = copy.deepcopy(statement)
    inside = made["predicate"]
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = other(inside[path[-1]])
    return made


def test_a_figure_that_its_rows_do_not_give_is_found_though_it_is_signed(
    played: Run, verdict: Verdict
) -> None:
    """A console that signs what is not so: every number of the page is computed again."""
    statement = provenance.statement(end(played))
    paths = [(name, *rest) for name in FIGURES for rest in leaves(statement["predicate"][name])]
    assert len(paths) > 50
    for path in paths:
        holds, wrong = verdict(sign(changed(statement, path)))
        assert not holds, path
        assert wrong


def test_a_row_that_its_figures_do_not_give_is_found_though_it_is_signed(
    played: Run, verdict: Verdict
) -> None:
    statement = provenance.statement(end(played))
    rows = statement["predicate"]["attempts"]
    for place, row in enumerate(rows):
        for column in COLUMNS:
            if column == "reward" and row["verifier"] != "valid":
                continue
            lie = changed(statement, ("attempts", place, column))
            for subject, name in zip(lie["subject"], ("attempts", "desktops"), strict=False):
                text = b"".join(verify.canonical(one) + b"\n" for one in lie["predicate"][name])
                subject["digest"]["sha256"] = verify.hashlib.sha256(text).hexdigest()
            holds, _ = verdict(sign(lie))
            assert not holds, (place, column)


def test_the_log_that_the_api_gives_is_the_one_that_was_signed(
    played: Run, verdict: Verdict, api: Callable[..., APIClient]
) -> None:
    rows = api().get(f"/v1/runs/{played.pk}/events").json()["results"]
    log = b"".join(verify.canonical(row) + b"\n" for row in rows)
    assert verdict(whole(played), log) == (True, [])
    assert verdict(whole(played), log.replace(b"Olga", b"Otto"))[0] is False


@pytest.mark.parametrize(
    "totals",
    [
        [(3, 2, 1)],
        [(5, 5, 5), (2, 1, 1)],
        [(5, 5, 0), (2, 1, 0), (1, 0, 0)],
        [(8, 7, 3), (4, 4, 4), (9, 2, 0), (3, 3, 1), (1, 0, 0)],
        [(200, 150, n) for n in range(0, 140, 3)],
    ],
)
def test_the_program_and_the_page_reckon_the_same_rate(totals: list[tuple[int, int, int]]) -> None:
    """Two programs, by different ways."""
    page = scoring.rate({n: scoring.TaskTotal(*total) for n, total in enumerate(totals)})
    mine = verify.rate(
        verify.Counter(finished=finished, valid=valid, success=success) for finished, valid, success in totals
    )
    for name, value in mine.items():
        assert verify.same(getattr(page, name), value), name


@pytest.mark.parametrize("df", [1, 2, 3, 7, 40, 365])
def test_its_quantile_of_students_t_is_exact(df: int) -> None:
    assert math.isclose(verify.student_t(0.975, df), stats.t.ppf(0.975, df), rel_tol=1e-9)


def test_a_run_that_a_worker_played_verifies(
    workspace: Workspace,
    owner: User,
    material: dict[str, Any],
    verdict: Verdict,
    api: Callable[..., APIClient],
) -> None:
    """From the request to the last desktop, by the verbs that every run goes through."""
    made = api().post("/v1/runs", _document()).json()
    worker = PaperWorker(workspace, owner)
    run = _play(worker, made["id"])
    assert run.is_terminal
    reply = api().get(f"/v1/runs/{run.pk}/provenance")
    assert verdict(reply.content) == (True, [])


def _document() -> dict[str, Any]:
    return document("basics", ["task-1", "task-2"], rounds=2)


def _play(worker: PaperWorker, id: str) -> Run:
    for _ in range(20):
        one_pass()
        worker.beat()
        for place, assignment in enumerate(worker.offered()):
            worker.play(assignment, reward=float(place % 2))
        run = Run.objects.get(pk=id)
        if run.is_terminal:
            break
    return run


def test_a_reopened_run_verifies_with_all_its_tries_and_both_stretches(
    workspace: Workspace, owner: User, material: dict[str, Any], verdict: Verdict
) -> None:
    worker = PaperWorker(workspace, owner, slots=1)
    actor = Actor.person(owner)
    run = create_run(workspace=workspace, document=document("basics", ["task-1"]), actor=actor)
    for _ in range(3):
        one_pass()
        worker.break_down(worker.offered()[0])
    one_pass()
    retry_invalid(run, actor=actor)
    one_pass()
    worker.play(worker.offered()[0])
    one_pass()
    run = Run.objects.select_related("workspace", "budget", "task_set", "template_version__template").get()
    manifest = json.loads(whole(run))
    statement = json.loads(base64.b64decode(manifest["payload"]))["predicate"]
    assert statement["run"]["reopened"] == 1
    assert [one["ok"] for one in statement["attempts"][0]["tries"]] == [False, False, False, True]
    assert verdict(manifest) == (True, [])
