"""Every page that can be reached: nothing in it that the content security policy would have to allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from lxml import html

from console.models import User, Workspace
from runs.models import Run
from tests.crawl import Found, crawl
from tests.factories import TemplateVersionFactory, UserFactory, WorkerFactory
from tests.runs.pages.stage import a_run, play

pytestmark = pytest.mark.django_db
# Swagger's own page, whose script sets styles: the policy allows it there and nowhere else.
SETS_STYLES = ("/v1/docs/",)


@pytest.fixture
def lived_in(workspace: Workspace, member: User) -> None:
    """Runs in every state a page tells apart, a worker, a fault."""
    a_run(workspace, status="queued")
    for kind in ("evaluation", "scripted_test"):
        play(a_run(workspace, kind=kind), finished=1)
        ended = a_run(workspace, kind=kind)
        play(ended)
        Run.objects.filter(pk=ended.pk).update(
            status="completed", stop_reason="all_tasks_done", ended_at=timezone.now()
        )
    WorkerFactory(workspace=workspace)
    TemplateVersionFactory(workspace=workspace, name="office")


def inline(page: bytes, *, sets_styles: bool) -> Iterator[str]:
    """What runs or styles from within the page itself."""
    for element in html.fromstring(page).iter():
        if not isinstance(element.tag, str):
            continue
        if element.tag == "script" and not element.get("src") and element.get("type") != "application/json":
            yield "a script"
        if element.tag == "style" and not sets_styles:
            yield "a style sheet"
        for name, value in element.attrib.items():
            if name == "style" or name.startswith("on"):
                yield f"{element.tag} with {name}"
            if name in ("href", "src", "action", "formaction") and value.strip().lower().startswith(
                "javascript:"
            ):
                yield f"{element.tag} with a script for an address"


def wrong_headers(reply: Any) -> Iterator[str]:
    policy = reply.get("Content-Security-Policy", "")
    if "frame-ancestors 'none'" not in policy or "default-src 'none'" not in policy:
        yield "no policy"
    if "unsafe" in policy and not any(reply.wsgi_request.path.startswith(path) for path in SETS_STYLES):
        yield "an unsafe policy"
    for name, value in (
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
    ):
        if reply.get(name) != value:
            yield f"{name} is {reply.get(name)}"


def faults(pages: Iterator[Found]) -> tuple[int, dict[str, set[str]]]:
    seen, found = 0, dict[str, set[str]]()
    for page in pages:
        seen += 1
        assert page.reply.status_code in (200, 301, 302), (page.address, page.reply.status_code)
        wrong = {
            *wrong_headers(page.reply),
            *(inline(page.body, sets_styles=page.address in SETS_STYLES) if page.is_page else ()),
        }
        if wrong:
            found[page.address] = wrong
    return seen, found


def test_nothing_in_any_page_needs_more_than_the_policy_allows(
    lived_in: None, owner: User, client_for: Callable[[User], Client]
) -> None:
    seen, found = faults(crawl(client_for(owner), "/w/lab/", "/accounts/email/", "/v1/docs/"))
    assert found == {}
    assert seen > 60


def test_nor_in_what_a_stranger_sees() -> None:
    seen, found = faults(crawl(Client(), "/accounts/login/"))
    assert found == {}
    assert seen >= 3


def test_nor_in_the_administration(lived_in: None, client_for: Callable[[User], Client]) -> None:
    staff = UserFactory(email="staff@example.test", is_staff=True, is_superuser=True)
    seen, found = faults(crawl(client_for(staff), "/admin/", of_a_kind=1, queries=False))
    assert found == {}
    assert seen > 20


@pytest.mark.parametrize("address", ["/nowhere", "/v1/nowhere", "/v1/runs", "/w/elsewhere/", "/v1/keys"])
def test_errors_and_the_api_carry_the_headers_too(address: str) -> None:
    assert list(wrong_headers(Client().get(address))) == []
    assert list(wrong_headers(Client().get(address, HTTP_HOST="evil.example"))) == []


def test_under_https_browsers_are_told_to_stay_there(settings: Any) -> None:
    settings.SECURE_HSTS_SECONDS = 31_536_000
    assert Client().get("/v1/keys", secure=True)["Strict-Transport-Security"].startswith("max-age=31536000")
