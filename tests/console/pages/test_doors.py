from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import PASSWORD, RunFactory, TaskFactory, TaskSetFactory, UserFactory

pytestmark = pytest.mark.django_db


def test_the_front_door_leads_to_the_persons_workspace(workspace, member, client_for):
    assert client_for(member).get("/")["Location"] == "/w/lab/"


def test_whoever_is_in_no_workspace_is_told_how_to_get_into_one(client_for):
    text = client_for(UserFactory()).get("/").content.decode()
    assert "You are in no workspace yet" in text


def test_the_front_door_asks_for_sign_in(client):
    assert client.get("/")["Location"].startswith(reverse("account_login"))


def test_a_person_signs_in_with_email_and_password(workspace, member, client):
    assert "Sign in" in client.get(reverse("account_login")).content.decode()
    reply = client.post(reverse("account_login"), {"login": member.email, "password": PASSWORD})
    assert reply["Location"] == "/"


def test_a_wrong_password_is_said_without_saying_which_part(workspace, member, client):
    text = client.post(reverse("account_login"), {"login": member.email, "password": "no"}).content.decode()
    assert 'role="alert"' in text


@pytest.mark.parametrize("name", ["account_reset_password", "account_signup"])
def test_pages_before_sign_in_have_our_clothes(name, client):
    assert "deskyard.css" in client.get(reverse(name)).content.decode()


@pytest.mark.parametrize("name", ["account_change_password", "account_logout", "mfa_index"])
def test_pages_of_the_account_have_our_clothes(name, workspace, member, client_for):
    assert "deskyard.css" in client_for(member).get(reverse(name)).content.decode()


@pytest.mark.parametrize(("before", "after"), [("", "dark"), ("light", "dark"), ("dark", "light")])
def test_the_theme_is_switched_and_kept_in_a_cookie(before, after, client):
    client.cookies["theme"] = before
    reply = client.post("/theme/", {"next": "/accounts/login/"})
    assert reply["Location"] == "/accounts/login/"
    assert client.cookies["theme"].value == after
    assert f'data-bs-theme="{after}"' in client.get("/accounts/login/").content.decode()


@pytest.mark.parametrize("elsewhere", ["https://evil.test/", "//evil.test", "javascript:alert(1)"])
def test_the_theme_button_leads_nowhere_else(elsewhere, client):
    assert client.post("/theme/", {"next": elsewhere})["Location"] == "/"


def test_a_theme_we_do_not_have_is_not_written_into_the_page(client):
    client.cookies["theme"] = "x"
    assert "data-bs-theme" not in client.get("/accounts/login/").content.decode()


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("1", "/w/lab/runs/1/"),
        ("#1", "/w/lab/runs/1/"),
        ("1/2", "/w/lab/runs/1/attempts/2/"),
        ("77", "/w/lab/runs/?q=77"),
        ("", "/w/lab/"),
    ],
)
def test_jumping_finds_runs_and_attempts_by_number(words, where, workspace, member, client_for):
    RunFactory(workspace=workspace)
    assert client_for(member).get("/w/lab/jump/", {"q": words})["Location"] == where


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("tokens", "/w/lab/tokens/"),
        ("TASK SETS", "/w/lab/task-sets/"),
        ("rename", "/w/lab/task-sets/basics/tasks/rename-folder/"),
        ("folder old", "/w/lab/task-sets/basics/tasks/rename-folder/"),
        ("night smoke", "/w/lab/runs/1/"),
        ("morning smoke", "/w/lab/runs/?q=morning+smoke"),
        ("audit", "/w/lab/runs/?q=audit"),  # a member has no such page
    ],
)
def test_jumping_finds_pages_tasks_and_runs_by_their_words(words, where, workspace, member, client_for):
    tasks = TaskSetFactory(workspace=workspace, name="basics", tasks=2)
    TaskFactory(task_set=tasks, position=3, task_id="rename-folder", title="Rename the old folder")
    RunFactory(workspace=workspace, task_set=tasks, name="A night smoke")
    assert client_for(member).get("/w/lab/jump/", {"q": words})["Location"] == where


def test_the_list_narrows_while_one_types(workspace, owner, other_workspace, client_for):
    mine = TaskSetFactory(workspace=workspace, name="basics", tasks=0)
    others = TaskSetFactory(workspace=other_workspace, name="foreign", tasks=0)
    for tasks in (mine, others):
        TaskFactory(task_set=tasks, position=1, task_id="audit-file", title=f"Audit of {tasks.name}")
    page = (
        client_for(owner).get("/w/lab/jump/", {"q": "audit"}, headers={"HX-Request": "true"}).content.decode()
    )
    words = re.findall(r'<span class="cut">(.*?)</span>', page)
    assert words == ["Audit log", "Audit of basics", "Runs named “audit”"]


@pytest.mark.parametrize("address", ["/w/lab/jump/", "/"])
def test_a_wrong_method_is_refused(address, workspace, member, client_for):
    assert client_for(member).post(address).status_code == 405
    assert client_for(member).get("/theme/").status_code == 405


def test_an_outsider_cannot_jump(workspace, outsider, other_workspace, client_for):
    assert client_for(outsider).get("/w/lab/jump/?q=1").status_code == 404


def test_what_is_not_there_and_what_is_not_yours_get_the_same_page(
    workspace, outsider, other_workspace, client_for
):
    client = client_for(outsider)
    theirs, nothing = client.get("/w/lab/"), client.get("/w/nowhere/")
    assert theirs.status_code == nothing.status_code == 404
    varying = re.compile(r'value="[^"]*"')  # the form token, and the address to come back to
    assert varying.sub("", theirs.content.decode()) == varying.sub("", nothing.content.decode())


def test_a_form_without_its_token_gets_a_page_that_explains(workspace, member):
    client = Client(enforce_csrf_checks=True)
    client.force_login(member, backend="django.contrib.auth.backends.ModelBackend")
    reply = client.post("/theme/")
    assert reply.status_code == 403
    assert "The form was too old" in reply.content.decode()


def test_the_shell_links_only_to_pages_there_are_and_names_the_workspaces(workspace, member, client_for):
    text = client_for(member).get("/w/lab/runs/").content.decode()
    assert "/w/lab/runs/" in text
    assert 'aria-current="page"' in text
    assert "Olga" not in text


def test_without_a_mail_server_a_forgotten_password_leads_to_people_not_to_a_form(client, settings):
    address = reverse("account_reset_password")
    settings.EMAIL_HOST = ""
    assert address not in client.get(reverse("account_login")).content.decode()
    assert "sends no mail" in client.get(address).content.decode()
    settings.EMAIL_HOST = "mail.example.test"
    assert address in client.get(reverse("account_login")).content.decode()
    assert 'name="email"' in client.get(address).content.decode()


def test_signing_in_needs_no_message(workspace, member, client):
    sent = {"login": member.email, "password": PASSWORD}
    reply = client.post(reverse("account_login"), sent, follow=True)
    assert not list(reply.context["messages"])
