from __future__ import annotations

import pytest
from django.template.loader import render_to_string

from runs.models import RunDraft


def test_the_500_page_needs_neither_database_nor_session():
    """No database mark: a query would fail the test. No request either."""
    text = render_to_string("500.html")
    assert "Something broke on our side" in text
    assert "<style" not in text


@pytest.mark.django_db
@pytest.mark.parametrize(
    "address", ["runs/?q=%00", "jump/?q=a%00", "members/?q=%00", "task-sets/a/tasks/%00/"]
)
def test_a_nul_in_the_address_is_a_400(workspace, member, client_for, address):
    reply = client_for(member).get(f"/w/lab/{address}")
    assert reply.status_code == 400
    assert "We cannot read that request" in reply.content.decode()


@pytest.mark.django_db
def test_a_nul_in_a_form_is_a_400_and_stores_nothing(workspace, member, client_for):
    reply = client_for(member).post("/w/lab/runs/new/workload/", {"name": "a\x00b"})
    assert reply.status_code == 400
    assert not RunDraft.objects.exists()


@pytest.mark.django_db
def test_endless_digits_to_jump_to_are_words(workspace, member, client_for):
    for words in ("9" * 5000, f"1/{'9' * 5000}"):
        assert client_for(member).get("/w/lab/jump/", {"q": words}).status_code == 302


@pytest.mark.django_db
def test_an_error_leads_back_to_where_one_came_from(workspace, member, client_for):
    client = client_for(member)
    here = "http://testserver"
    for address, status in (("/w/lab/runs/99/", 404), ("/w/lab/audit/", 403), ("/nowhere/", 404)):
        reply = client.get(address, headers={"Referer": f"{here}/w/lab/runs/?status=done"})
        assert reply.status_code == status
        assert 'href="/w/lab/runs/?status=done"' in reply.content.decode()
    assert 'href="/w/lab/"' in client.get("/w/lab/runs/99/").content.decode()
    others = (
        "https://elsewhere.example/x",
        f"{here}/nowhere/",
        "//",
        "http://[",
        f"{here}//elsewhere.example",
    )
    for elsewhere in others:
        text = client.get("/nowhere/", headers={"Referer": elsewhere}).content.decode()
        assert "Back</a>" not in text


@pytest.mark.django_db
def test_a_member_at_the_administration_is_told_whose_it_is(workspace, member, client_for):
    reply = client_for(member).get("/admin/", follow=True)
    assert reply.status_code == 403
    assert "platform staff only" in reply.content.decode()
