from __future__ import annotations

import pytest
from django.template.loader import render_to_string


def test_the_500_page_needs_neither_database_nor_session():
    """No database mark: a query would fail the test. No request either."""
    text = render_to_string("500.html")
    assert "Something broke on our side" in text
    assert "<style" not in text


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("address", "status"),
    [("runs/?q=%00", 200), ("jump/?q=a%00", 302), ("members/?q=%00", 200), ("task-sets/a/tasks/%00/", 404)],
)
def test_a_nul_in_the_address_finds_nothing(workspace, member, client_for, address, status):
    assert client_for(member).get(f"/w/lab/{address}").status_code == status


@pytest.mark.django_db
def test_a_nul_in_a_form_is_seen_in_its_field(workspace, member, client_for):
    reply = client_for(member).post("/w/lab/runs/new/workload/", {"name": "a\x00b"}, follow=True)
    assert reply.status_code == 200
    assert "a\ufffdb" in reply.content.decode()


@pytest.mark.django_db
def test_a_name_that_the_console_does_not_have_is_explained(client):
    reply = client.get("/", headers={"Host": "elsewhere.example"})
    assert reply.status_code == 400
    assert "DJANGO_ALLOWED_HOSTS" in reply.content.decode()
    assert "/w/" not in reply.content.decode()


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
