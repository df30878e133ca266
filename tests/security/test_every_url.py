"""Every address, tried as everybody. The list comes from the URL configuration, the expectation from `rules`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.db import transaction
from django.http import HttpResponseBase
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from console.models import AuditEntry, Membership, Token, User, Workspace
from runs.models import Run

from . import rules
from .world import SECRET_NAME, World, build, patterns

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/login/"


@pytest.fixture
def world(workspace: Workspace, owner: User, admin: User, member: User, outsider: User) -> World:
    return build(workspace, owner, admin, member, outsider)


class _Undone(Exception):
    """What the request did is taken back."""


def tried(send: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[HttpResponseBase, bytes, int]:
    """The reply, its body, and how many entries it added to the audit log; all of it undone."""
    result: tuple[HttpResponseBase, bytes, int] | None = None
    try:
        with transaction.atomic():
            before = AuditEntry.objects.count()
            reply = send(*args, **kwargs)
            body = b"".join(reply.streaming_content) if reply.streaming else reply.content
            result = reply, body, AuditEntry.objects.count() - before
            raise _Undone
    except _Undone:
        pass
    assert result is not None
    return result


def test_every_address_is_declared() -> None:
    found = {pattern.name for pattern in patterns() if pattern.name}
    declared = set(rules.PAGES) | set(rules.API)
    assert not found - declared, "Say in tests/security/rules.py who may use these."
    assert not declared - found, "These are gone; take them out of tests/security/rules.py."
    nameless = [str(pattern.pattern) for pattern in patterns() if not pattern.name]
    assert set(nameless) == {""}, (
        "An address without a name cannot be declared; only the API's refusal has none."
    )


# ── pages ──────────────────────────────────────────────────────────────────────────────────────────


def page_verdict(
    page: rules.Page, persona: str, method: str, reply: HttpResponseBase, body: bytes, deeds: int
) -> str:
    """What is wrong with the reply; empty if nothing is."""
    may = persona in (page.get if method == "GET" else page.post)
    status = reply.status_code
    to_login = status == 302 and reply["Location"].startswith(LOGIN)
    if status >= 500:
        return f"broke: {status}"
    if may:
        good = status == 422 or (status < 400 and (not to_login or persona == rules.ANONYMOUS))
        return "" if good or (status == 404 and page.may_be_empty) else f"refused: {status}"
    if deeds:
        return f"did it all the same, {deeds} times"
    if SECRET_NAME.encode() in body:
        return "told the run's name"
    everybody = page.get | page.post
    if persona == rules.ANONYMOUS:
        return "" if to_login or status == 405 else f"let in: {status}"
    if persona == rules.OUTSIDER and everybody and everybody <= rules.MEMBERS:
        return "" if status in (404, 405) else f"told an outsider: {status}"
    return "" if status in (403, 404, 405) else f"let in: {status}"


@pytest.mark.parametrize("persona", rules.PERSONAS)
def test_each_page_lets_in_whom_it_should(persona: str, world: World) -> None:
    wrong = []
    for name, page in rules.PAGES.items():
        address = world.address(name, persona)
        for method, form in (("GET", None), ("POST", page.form)):
            client = world.client(persona)
            reply, body, deeds = tried(getattr(client, method.lower()), address, form)
            problem = page_verdict(page, persona, method, reply, body, deeds)
            if problem:
                wrong.append(f"{method} {name}: {problem}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("persona", [rules.OWNER, rules.ANONYMOUS, rules.OUTSIDER])
def test_no_page_takes_a_form_without_its_token(persona: str, world: World) -> None:
    """A form that another site sends in the person's name."""
    wrong = []
    for name, page in rules.PAGES.items():
        if not page.post:
            continue
        client = world.client(persona)
        client.handler.enforce_csrf_checks = True
        reply, _, deeds = tried(client.post, world.address(name, persona), page.form)
        if reply.status_code != 403 or deeds:
            wrong.append(f"{name}: {reply.status_code}")
    assert not wrong, "\n".join(wrong)


def admin_addresses() -> Iterator[str]:
    for pattern in django_admin.site.urls[0]:
        inner = getattr(pattern, "url_patterns", [pattern])
        for one in inner:
            if not one.name or one.name in ("login", "logout"):
                continue
            for kwargs in (
                {},
                {"object_id": "1"},
                {"app_label": "console"},
                {"content_type_id": 1, "object_id": 1},
            ):
                try:
                    yield reverse(f"admin:{one.name}", kwargs=kwargs)
                    break
                except NoReverseMatch:
                    continue


def test_the_administration_is_for_staff(world: World) -> None:
    addresses = list(admin_addresses())
    assert len(addresses) > 100
    wrong = []
    for persona in (rules.ANONYMOUS, rules.OWNER):
        client = world.client(persona)
        for address in addresses:
            for send in (client.get, client.post):
                reply, _, deeds = tried(send, address)
                if reply.status_code not in (302, 403, 404) or deeds:
                    wrong.append(f"{persona} {address}: {reply.status_code}")
                if reply.status_code == 302 and "/login/" not in reply["Location"]:
                    wrong.append(f"{persona} {address}: to {reply['Location']}")
    assert not wrong, "\n".join(wrong)


# ── the API ────────────────────────────────────────────────────────────────────────────────────────


def call(world: World, name: str, method: str, secret: str | None) -> tuple[HttpResponseBase, bytes, int]:
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    address = world.address(name)
    body = json.dumps(rules.BODIES.get((name, method), {}))
    return tried(Client(headers=headers).generic, method, address, body, content_type="application/json")


def every_call() -> Iterator[tuple[str, str, str | None]]:
    for name, methods in rules.API.items():
        for method, scope in methods.items():
            yield name, method, scope


@pytest.mark.parametrize("key", ["none", "nonsense", "expired", "revoked", "orphaned", "closed"])
def test_the_api_answers_no_bad_key(key: str, world: World, secret_for: Callable[..., str]) -> None:
    secret: str | None = None
    person = world.people["member"]
    if key == "nonsense":
        secret = "dy_" + "0" * 64
    elif key != "none":
        secret = secret_for(user=person)
        token = Token.objects.filter(user=person)
        if key == "expired":
            token.update(expiry=timezone.now() - timedelta(seconds=1))
        elif key == "revoked":
            token.update(revoked_at=timezone.now())
        elif key == "orphaned":
            Membership.objects.filter(user=person).delete()
        else:
            User.objects.filter(pk=person.pk).update(is_active=False)
    wrong = []
    for name, method, scope in every_call():
        reply, body, deeds = call(world, name, method, secret)
        good = reply.status_code == 200 if scope is None else reply.status_code == 401
        if not good or deeds or SECRET_NAME.encode() in body:
            wrong.append(f"{method} {name}: {reply.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "held", ["runs:read", "runs:write", "workers:connect", "evaluations:write", "computers:write"]
)
def test_the_api_wants_the_scope_of_each_call(
    held: str, world: World, secret_for: Callable[..., str]
) -> None:
    secret, wrong = secret_for(held), []
    for name, method, scope in every_call():
        reply, body, deeds = call(world, name, method, secret)
        if scope is None or scope == held:
            if reply.status_code in (401, 403, 404, 405) or reply.status_code >= 500:
                wrong.append(f"{method} {name}: refused with {reply.status_code}")
        elif reply.status_code != 403 or deeds or SECRET_NAME.encode() in body:
            wrong.append(f"{method} {name}: {reply.status_code} without {scope}")
    assert not wrong, "\n".join(wrong)


def test_the_api_has_no_other_methods(world: World, secret_for: Callable[..., str]) -> None:
    secret, wrong = secret_for(), []
    for name, methods in rules.API.items():
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - set(methods):
            reply, _, deeds = call(world, name, method, secret)
            if reply.status_code not in (403, 405) or deeds:
                wrong.append(f"{method} {name}: {reply.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("how", ["token", "session", "session naming it"])
def test_the_api_shows_and_does_nothing_of_another_workspace(
    how: str, world: World, other_workspace: Workspace, outsider: User, secret_for: Callable[..., str]
) -> None:
    secret = secret_for(user=outsider, workspace=other_workspace)
    wrong = []
    for name, method, scope in every_call():
        if scope is None or scope == "workers:connect":
            continue
        address = world.address(name)
        if how == "token":
            reply, body, deeds = call(world, name, method, secret)
        else:
            client = world.client(rules.OUTSIDER)
            query = "?workspace=lab" if "naming" in how else ""
            sent = json.dumps(rules.BODIES.get((name, method), {}))
            reply, body, deeds = tried(
                client.generic, method, address + query, sent, content_type="application/json"
            )
        own = address in (
            "/v1/runs",
            "/v1/workers",
            "/v1/states",
            "/v1/computers",
            "/v1/templates",
            "/v1/task_sets",
            "/v1/budget",
            "/preview/evaluations",
        )
        own = own or (name, method) == ("api-evaluation-rollouts", "POST")  # what is not there is made
        expected = (200, 422) if own and "naming" not in how else (404,)
        if reply.status_code not in expected or deeds or _ours(world, body):
            wrong.append(f"{method} {name}: {reply.status_code}")
    assert not wrong, "\n".join(wrong)


def _ours(world: World, body: bytes) -> bool:
    marks = (
        SECRET_NAME,
        str(world.run.pk),
        str(world.worker.pk),
        str(world.state.pk),
        str(world.hold.pk),
        str(world.evaluation.pk),
        world.sha256,
    )
    return any(mark.encode() in body for mark in marks)


def test_a_token_does_no_more_than_its_person_may(world: World, secret_for: Callable[..., str]) -> None:
    secrets = {who: secret_for(user=world.people[who]) for who in ("member", "creator", "admin", "owner")}
    for (name, method), whom in rules.API_FOR.items():
        for who, secret in secrets.items():
            reply, _, deeds = call(world, name, method, secret)
            refused = reply.status_code == 403
            assert refused == (who not in whom), (name, who, reply.status_code)
            assert not (refused and deeds)


def test_scopes_that_are_declared_are_those_of_the_views(world: World) -> None:
    """So that a view which takes another scope than this list says is found without a call."""
    for pattern in patterns():
        if pattern.name not in rules.API:
            continue
        view = getattr(pattern.callback, "cls", None)
        scopes: dict[str, Any] = getattr(view, "scopes", {})
        declared = {method: scope for method, scope in rules.API[pattern.name].items() if scope}
        assert {method: scope.value for method, scope in scopes.items()} == declared, pattern.name


def test_the_run_is_as_it_was(world: World) -> None:
    """The tries above are undone; were they not, this fixture's checks would mean nothing."""
    tried(world.client(rules.OWNER).post, world.address("run-cancel"))
    assert Run.objects.get(pk=world.run.pk).stop_reason == ""
