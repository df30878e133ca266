"""Secrets planted at every door, a run played, errors provoked: then no secret is found in any place that is kept or
shown. What is kept of a secret on purpose is a digest or sealed, so a search for the secret itself finds nothing."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from arro3.io import read_parquet
from django.conf import settings as conf
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient

from console.actions.tokens import issue_token
from console.actions.webhooks import add_webhook
from console.actor import Actor
from console.models import Blob, Scope, User, Workspace
from console.redaction import MARK, RedactingFormatter
from runs import exports
from runs.actions.material import store_task_set
from runs.models import Run
from runs.supervisor import one_pass
from runs.tasksets import osworld
from tests.crawl import crawl
from tests.factories import PASSWORD, UserFactory, document
from tests.real_ids import real_ids
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db
# Django looks a session up by what the cookie holds; so does the list of a person's own sessions.
BY_KEY = {("django_session", "session_key"), ("usersessions_usersession", "session_key")}
READING = [scope.value for scope in Scope if scope.value.endswith(":read")]
WRONG_PASSWORD = "my-0ther-passphrase-of-the-bank"
KEY_OF_A_MODEL = "sk-proj-AbCdEf0123456789AbCdEf0123456789"
DATABASE = "postgresql://deskyard:sw0rdf1sh-of-the-database@db.internal:5432/deskyard"


class Planted:
    """The secrets, by the door that they came through."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {
            "session key": conf.SECRET_KEY,
            "signing key": conf.DESKYARD_SIGNING_KEY,
            **{f"sealing key {n}": key for n, key in enumerate(conf.DESKYARD_SECRET_KEYS)},
            "password": PASSWORD,
            "wrong password": WRONG_PASSWORD,
            "key of a model": KEY_OF_A_MODEL,
            "password of the database": "sw0rdf1sh-of-the-database",
        }

    def found_in(self, text: str) -> set[str]:
        return {name for name, secret in self.secrets.items() if secret in text}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that the console would write into its log, from every logger, as its handler writes it."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    options = conf.LOGGING["formatters"]["line"]
    handler.setFormatter(RedactingFormatter(options["format"], style=options["style"]))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.removeHandler(handler)
    root.setLevel(before)


def _token(workspace: Workspace, user: User, name: str, *scopes: str) -> str:
    _, secret = issue_token(
        workspace=workspace, user=user, name=name, scopes=scopes, expires_in=None, actor=Actor.person(user)
    )
    return secret


def plant_in_requests(planted: Planted, workspace: Workspace, owner: User) -> None:
    """Where they belong, and everywhere else."""
    token = planted.secrets["token"] = _token(workspace, owner, "ci", "runs:read", "runs:write")
    client = APIClient()
    bearer = {"HTTP_AUTHORIZATION": f"Bearer {token}"}
    assert client.get("/v1/runs", **bearer).status_code == 200
    good = document("basics", ["task-1"])
    for reply in (
        client.get(f"/v1/runs?token={token}"),
        client.get(f"/v1/runs?workspace={token}", **bearer),
        client.get(f"/v1/attempts/{token}", **bearer),
        client.post("/v1/runs", {**good, "name": f"with {token}"}, **bearer),
        client.post("/v1/runs", {**good, "tasks": [token]}, **bearer),
        client.post("/v1/runs", {**good, token: 1}, **bearer),
        client.post("/v1/runs", f'{{"name": "{token}', content_type="application/json", **bearer),
        client.post("/v1/runs", {**good}, HTTP_IDEMPOTENCY_KEY=token, **bearer),
        client.post("/v1/runs", good, HTTP_AUTHORIZATION=f"Basic {token}"),
        client.post("/v1/runs", good, HTTP_AUTHORIZATION=f"Bearer {token}{token}"),
        client.post("/v1/runs", good, HTTP_X_TOKEN=token),
        client.get("/v1/runs", HTTP_HOST=f"{token}.example"),
        client.get(f"/{token}"),
        client.post(
            "/v1/runs", {**good, "name": KEY_OF_A_MODEL, "model": {"api_key": KEY_OF_A_MODEL}}, **bearer
        ),
    ):
        assert 400 <= reply.status_code < 500, reply
        assert not planted.found_in(reply.content.decode()), reply.content
    sign_in = Client()
    for email, password in (
        (owner.email, WRONG_PASSWORD),
        (WRONG_PASSWORD, PASSWORD),
        (owner.email, PASSWORD),
    ):
        reply = sign_in.post("/accounts/login/", {"login": email, "password": password})
    assert reply.status_code == 302
    planted.secrets["session"] = sign_in.cookies["sessionid"].value
    for name in ("name", "q", "scopes", "unknown"):
        reply = sign_in.post("/w/lab/tokens/", {"scopes": "runs:read", "expires": "90", name: f"x {token}"})
        assert reply.status_code == 400
    sign_in.get("/w/lab/runs/", {"q": token})
    sign_in.post("/w/lab/new/workload/", {"name": token, "kind": "scripted_test"})
    _, secret = add_webhook(
        workspace=workspace,
        url="https://receiver.example/hook",
        events=["run.completed"],
        actor=Actor.person(owner),
    )
    planted.secrets["webhook"] = secret


def plant_in_tasks(planted: Planted, folder: Path, workspace: Workspace, owner: User) -> None:
    """A task whose setup holds a token is not taken in; its neighbour is."""
    token = planted.secrets["token in a task"] = _token(workspace, owner, "task", "runs:read")
    domain = folder / "examples" / "os"
    domain.mkdir(parents=True)
    for name, command in (("good", "true"), ("bad", f"curl -H 'Authorization: Bearer {token}' x")):
        task = {
            "id": name,
            "snapshot": "os",
            "instruction": "Do it.",
            "related_apps": ["os"],
            "config": [{"type": "execute", "parameters": {"command": command, "shell": True}}],
            "evaluator": {
                "func": "exact_match",
                "result": {"type": "vm_command_line", "command": "true"},
                "expected": {"type": "rule", "rules": {"expected": ""}},
            },
        }
        (domain / f"{name}.json").write_text(json.dumps(task))
    report = osworld.read(folder)
    assert [task.id for task in report.tasks] == ["good"]
    store_task_set(
        workspace=workspace,
        name="planted",
        title="Planted",
        report=report,
        recipe_for=lambda _: None,
        actor=Actor.person(owner),
    )


def play(planted: Planted, workspace: Workspace, owner: User) -> Run:
    """A worker whose desktop shows secrets, whose checker reads them and whose errors quote them."""
    worker = PaperWorker(workspace, owner)
    seen = planted.secrets["token seen by a worker"] = _token(workspace, owner, "seen", "workers:connect")
    told = f"Authorization: Bearer {seen}; {DATABASE}; {KEY_OF_A_MODEL}; {conf.SECRET_KEY}"
    api = APIClient(HTTP_AUTHORIZATION=f"Bearer {_token(workspace, owner, 'api', 'runs:write')}")
    id = api.post("/v1/runs", document("basics", ["task-1", "task-2"])).json()["id"]
    one_pass()
    worker.beat()
    good, bad = worker.offered()
    computer = worker.start(good)
    action = {"action": "type", "text": told, "note": told}
    times = {"act_ms": 1, "settle_ms": 30, "grab_ms": 4, "settled": True}
    shot = "a" * 64
    worker.say(
        good,
        {
            "kind": "step",
            "number": 1,
            "action": action,
            "screenshot": shot,
            "active_window": seen,
            "error": told,
            **times,
        },
        {"kind": "verifying"},
        {
            "kind": "verdict",
            "reward": 1.0,
            "checker": "osworld@v1",
            "checker_digest": "sha256:0",
            "seconds": 0.1,
            "screenshot": shot,
            "evidence": [
                {
                    "label": told,
                    "metric": "m",
                    "found": {told: [told]},
                    "expected": told,
                    "reward": 1,
                    "note": told,
                }
            ],
        },
        {"kind": "computer_stopped", "computer": computer, "reason": f"gone: {told}"},
        {"kind": "attempt_ended", "ok": True, "detail": told},
        {"kind": told},
        {"kind": "step", "number": told, "action": action},
    )
    for _ in range(3):
        computer = worker.start(bad)
        worker.stop(bad, computer)
        worker.end(bad, ok=False, invalid_reasons=["checker_error"], checker_error=told, detail=told)
        one_pass()
        worker.beat()
        bad = next(iter(worker.offered()), bad)
    one_pass()
    _evaluate(planted, workspace, owner)
    return Run.objects.get(pk=id)


def _evaluate(planted: Planted, workspace: Workspace, owner: User) -> None:
    """A set of rollouts in whose document a token stands is refused wherever it stands."""
    token = planted.secrets["token of an evaluation"] = _token(workspace, owner, "evals", "evaluations:write")
    api = APIClient(HTTP_AUTHORIZATION=f"Bearer {token}")
    good: dict[str, Any] = {
        "name": "basics",
        "environment": {"kind": "sandbox", "template": "basic@1"},
        "judge": "osworld@v1",
        "policy": "recipes",
        "spec": {"task_set": "basics", "task": "task-1", "recipe": True},
    }
    for change in (
        {"name": token},
        {"policy": f"by {token}"},
        {"labels": {"key": token}},
        {"mission": token},
    ):
        assert api.post("/preview/evaluations", {**good, **change}).status_code == 400
    assert api.post("/preview/evaluations", good).status_code == 201


def provoke(planted: Planted) -> None:
    """What breaks says what it was doing."""
    log = logging.getLogger("console.anything")
    for name, secret in planted.secrets.items():
        if name in ("password", "wrong password", "session"):  # nothing tells these from ordinary words
            secret = f"sessionid={secret}" if name == "session" else f"password={secret}"
        if name == "password of the database":
            secret = DATABASE
        try:
            raise RuntimeError(f"could not use {secret}")
        except RuntimeError:
            log.exception("broke while it held %s", secret)
        log.warning("headers: %r", {"Authorization": f"Bearer {secret}"})


def columns() -> Iterator[tuple[str, str, str]]:
    """Every column of every table that can hold text, and the expression that reads it as text."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
        )
        for table, column, kind in cursor.fetchall():
            if kind in ("text", "character varying", "character", "json", "jsonb", "ARRAY", "USER-DEFINED"):
                yield table, column, f'"{column}"::text'
            elif kind == "bytea":
                yield table, column, f"encode(\"{column}\", 'escape')"


def in_tables(planted: Planted) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    with connection.cursor() as cursor:
        for table, column, text in columns():
            cursor.execute(f'SELECT {text} FROM "{table}"')  # noqa: S608  names from the catalogue
            everything = "\n".join(value for (value,) in cursor.fetchall() if value)
            if names := planted.found_in(everything):
                found[table, column] = names
    return found


def readable(api: APIClient, run: Run) -> Iterator[tuple[str, bytes]]:
    """Whatever the API gives out by itself, from its own document."""
    ids, known = real_ids(run), {"name": "basics", "number": "1"}
    for path, methods in (
        api.get("/v1/schema", HTTP_ACCEPT="application/vnd.oai.openapi+json").json()["paths"].items()
    ):
        if (
            "get" not in methods or "blob" in path or "screenshot" in path
        ):  # pictures, which are looked at by themselves
            continue
        names = {**known, "id": ids.get(path.split("/")[2], "")}
        for form in exports.FORMATS if "{form}" in path else ("",):
            address = re.sub(r"\{(\w+)\}", lambda found: {**names, "form": form}[found[1]], path)  # noqa: B023
            reply = api.get(address)
            assert reply.status_code == 200, address
            yield address, unpacked(b"".join(reply)) if form == "parquet" else b"".join(reply)


def unpacked(parquet: bytes) -> bytes:
    """Every cell of it, which the file itself holds compressed."""
    table = read_parquet(io.BytesIO(parquet)).read_all()
    return repr({name: table.column(name).to_pylist() for name in table.column_names}).encode()


def test_no_planted_secret_is_kept_or_shown(
    workspace: Workspace,
    owner: User,
    material: dict[str, Any],
    client_for: Callable[[User], Client],
    tmp_path: Path,
    log: io.StringIO,
) -> None:
    planted = Planted()
    plant_in_requests(planted, workspace, owner)
    plant_in_tasks(planted, tmp_path, workspace, owner)
    run = play(planted, workspace, owner)
    provoke(planted)
    assert run.status == "completed", run.status
    assert len(planted.secrets) > 10

    found = in_tables(planted)
    assert {place: names for place, names in found.items() if place not in BY_KEY} == {}
    assert all(names == {"session"} for names in found.values())

    staff = UserFactory(email="staff@example.test", is_staff=True, is_superuser=True)
    shown = 0
    for pages in (
        crawl(client_for(owner), "/w/lab/", f"/w/lab/runs/{run.number}/", of_a_kind=1),
        crawl(client_for(staff), "/admin/", of_a_kind=1, queries=False),
    ):
        for page in pages:
            shown += 1
            assert not planted.found_in(page.body.decode(errors="replace")), page.address
    assert shown > 50
    bearer = APIClient(HTTP_AUTHORIZATION=f"Bearer {_token(workspace, owner, 'reader', *READING)}")
    given = dict(readable(bearer, run))
    for path, body in given.items():
        assert not planted.found_in(body.decode(errors="replace")), path
    files = {form: given[f"/v1/runs/{run.pk}/attempts.{form}"].decode() for form in exports.FORMATS}
    assert all(MARK in text for text in files.values())  # it was there, and went
    export = b"".join(client_for(owner).get(f"/w/lab/runs/{run.number}/attempts.csv")).decode()
    assert MARK in export  # it was there, and went

    for blob in Blob.objects.all():
        with Blob.storage().open(blob.path) as file:
            assert not planted.found_in(file.read().decode(errors="replace"))
    written = log.getvalue()
    assert "broke while it held" in written
    assert planted.found_in(written) == set()
