"""What the worker of an open computer is asked: save it, make a template version of it; answered once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actions.workspaces import NotAllowed
from console.actor import Actor
from console.models import AuditEntry, User, Workspace
from desktops.actions.asks import save_computer, to_ask
from desktops.actions.drafts import UNNAMED, clear_discarded, images_to_forget
from desktops.actions.holds import NotReady, close_computer
from desktops.actions.templates import NotADraft, NotMadeYet, discard_draft, draft_from, publish_draft
from desktops.models import Ask, DiscardedImage, Hold, State, Template, TemplateVersion, Worker
from desktops.protocol import messages
from tests.desktops.hands import answer, digest, end, opened, start
from tests.factories import TemplateVersionFactory
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db


@pytest.fixture
def paper(workspace: Workspace, owner: User) -> PaperWorker:
    return PaperWorker(workspace, owner)


@pytest.fixture
def hold(workspace: Workspace, member: User, paper: PaperWorker) -> Hold:
    """Mia's, ready."""
    hold = opened(workspace, member)
    start(paper, hold)
    return hold


@pytest.fixture
def mia(member: User) -> Actor:
    return Actor.person(member)


def test_it_is_saved_under_a_name_of_ours_and_a_label_of_theirs(
    hold: Hold, paper: PaperWorker, mia: Actor
) -> None:
    ask = save_computer(hold, label="Half done", keep_days=14, actor=mia)
    (said,) = to_ask(paper.worker)
    assert (said.ask, said.assignment, said.epoch) == (str(ask.pk), str(hold.assignment_id), 1)
    assert said.do == messages.Save(name=f"saved-{ask.pk}")
    answer(paper, ask, str(hold.computer_id))
    assert (ask.status, ask.error) == ("done", "")
    assert to_ask(paper.worker) == []
    state = State.objects.get()
    assert (state, state.origin, state.label) == (ask.state, "saved", "Half done")
    assert (state.computer, state.template_version) == (hold.computer, hold.template_version)
    assert state.expires_at == state.made_at + timedelta(days=14)


def test_what_cannot_be_saved_says_why(hold: Hold, paper: PaperWorker, mia: Actor) -> None:
    ask = save_computer(hold, label="", keep_days=14, actor=mia)
    answer(paper, ask, error="this engine cannot save a live desktop")
    assert (ask.status, ask.error, ask.state) == ("failed", "this engine cannot save a live desktop", None)
    save_computer(hold, label="", keep_days=14, actor=mia)  # and it may be tried again


def test_one_thing_at_a_time_and_only_of_one_that_is_ready(
    hold: Hold, workspace: Workspace, member: User, mia: Actor
) -> None:
    save_computer(hold, label="", keep_days=14, actor=mia)
    with pytest.raises(NotReady, match="being saved already"):
        draft_from(hold, name="mine", actor=mia)
    assert not TemplateVersion.objects.filter(status="draft").exists()
    with pytest.raises(NotReady, match="is waiting"):
        save_computer(opened(workspace, member), label="", keep_days=14, actor=mia)


def test_only_who_opened_it_and_managers_may_save_it(
    hold: Hold, owner: User, admin: User, workspace: Workspace, paper: PaperWorker, mia: Actor
) -> None:
    of_owner = opened(workspace, owner)
    start(paper, of_owner)
    with pytest.raises(NotAllowed):
        save_computer(of_owner, label="", keep_days=14, actor=mia)
    save_computer(hold, label="", keep_days=14, actor=Actor.person(admin))


def test_an_answer_is_taken_once_and_only_to_what_was_asked(
    hold: Hold, paper: PaperWorker, mia: Actor
) -> None:
    ask = save_computer(hold, label="", keep_days=14, actor=mia)
    answer(paper, ask, error="full")
    for said in (ask, Ask(pk=hold.pk, hold=hold)):
        applied = paper.say(
            hold.assignment,
            {"kind": "answered", "ask": str(said.pk), "error": "again"},  # type: ignore[arg-type]
        )
        assert [problem.detail for problem in applied.refused] == ["Nobody waits for that answer."]


def test_nothing_said_to_be_saved_is_no_saved_desktop(hold: Hold, paper: PaperWorker, mia: Actor) -> None:
    ask = save_computer(hold, label="", keep_days=14, actor=mia)
    applied = paper.say(hold.assignment, {"kind": "answered", "ask": str(ask.pk)})  # type: ignore[arg-type]
    assert len(applied.refused) == 1
    ask.refresh_from_db()
    assert ask.status == "asked"


def test_what_was_asked_when_it_ended_has_failed_and_its_draft_is_gone(
    hold: Hold, paper: PaperWorker, mia: Actor
) -> None:
    ask = draft_from(hold, name="mine", actor=mia)
    close_computer(hold, actor=mia)
    assert to_ask(paper.worker) == []
    end(paper, hold, str(hold.computer_id))
    ask.refresh_from_db()
    assert (ask.status, ask.error) == ("failed", "The computer ended before it was done.")
    assert not Template.objects.filter(name="mine").exists()


def test_a_draft_is_the_next_version_like_what_it_was_made_from(
    paper: PaperWorker, member: User, mia: Actor, workspace: Workspace
) -> None:
    TemplateVersionFactory(workspace=workspace, memory_mb=3000)
    hold = opened(workspace, member)
    start(paper, hold)
    TemplateVersionFactory(workspace=workspace, version=7)
    TemplateVersion.objects.filter(version=1).update(rate_usd_per_hour="0.08")
    ask = draft_from(hold, name="basic", title="No new title", actor=mia)
    assert to_ask(paper.worker)[0].do == messages.MakeImage(template="basic", version=8)
    answer(paper, ask)
    draft = TemplateVersion.objects.get(version=8)
    assert (draft.status, draft.digest, draft.published_at) == ("draft", digest(draft), None)
    assert (draft.base, draft.made_by) == (hold.template_version, "Mia Member")
    assert (draft.memory_mb, str(draft.rate_usd_per_hour)) == (3000, "0.080000")
    assert draft.template.title == "Basic desktop"


def test_a_new_name_is_a_new_template(hold: Hold, paper: PaperWorker, mia: Actor) -> None:
    answer(paper, draft_from(hold, name="with-data", title="With our data", actor=mia))
    template = Template.objects.get(name="with-data")
    assert (template.title, template.apps) == ("With our data", hold.template_version.template.apps)
    assert str(template.versions.get()) == "with-data@1"


@pytest.mark.parametrize("error", ["", "no room left"])
def test_an_image_that_could_not_be_made_leaves_no_draft(
    hold: Hold, paper: PaperWorker, mia: Actor, error: str
) -> None:
    ask = draft_from(hold, name="mine", actor=mia)
    wrong = {"name": "other", "version": 1, "digest": "sha256:1"}
    applied = answer(paper, ask, **({"error": error} if error else {"image": wrong}))
    if error:
        assert (ask.status, ask.error) == ("failed", "no room left")
        assert not Template.objects.filter(name="mine").exists()
    else:
        assert "not the one that was asked for" in applied.refused[0].detail
        assert ask.status == "asked"


def test_a_draft_is_published_once_and_never_changes_then(
    hold: Hold, paper: PaperWorker, mia: Actor, admin: User
) -> None:
    manager = Actor.person(admin)
    answer(paper, draft_from(hold, name="basic", actor=mia))
    draft = TemplateVersion.objects.get(status="draft")
    with pytest.raises(NotAllowed):
        publish_draft(draft, actor=mia)
    published = publish_draft(draft, actor=manager)
    assert (published.status, published.digest) == ("published", digest(draft))
    assert published.published_at
    for verb in (publish_draft, discard_draft):
        with pytest.raises(NotADraft):
            verb(draft, actor=manager)
    with pytest.raises(IntegrityError), transaction.atomic():
        TemplateVersion.objects.filter(pk=draft.pk).update(digest="sha256:other")
    said = AuditEntry.objects.filter(action__startswith="template.").order_by("pk")
    assert list(said.values_list("action", "subject", "actor_label")) == [
        ("template.drafted", "template basic@2", "Mia Member"),
        ("template.published", "template basic@2", "Adam Admin"),
    ]


def test_a_draft_that_nobody_wants_is_discarded_with_its_template(
    hold: Hold, paper: PaperWorker, mia: Actor, admin: User
) -> None:
    answer(paper, draft_from(hold, name="mine", actor=mia))
    draft = TemplateVersion.objects.get(status="draft")
    with pytest.raises(NotAllowed):
        discard_draft(draft, actor=mia)
    discard_draft(draft, actor=Actor.person(admin))
    assert not Template.objects.filter(name="mine").exists()
    assert AuditEntry.objects.filter(action="template.discarded", subject="template mine@1").exists()


def test_the_image_of_a_discarded_draft_is_to_be_forgotten_until_no_worker_has_it(
    hold: Hold, paper: PaperWorker, mia: Actor, admin: User, outsider: User, other_workspace: Workspace
) -> None:
    answer(paper, draft_from(hold, name="mine", actor=mia))
    draft = TemplateVersion.objects.get(status="draft")
    Worker.objects.update(images=[{"name": "mine", "version": 1, "digest": draft.digest}])
    assert images_to_forget(paper.worker) == []
    discard_draft(draft, actor=Actor.person(admin))
    assert images_to_forget(paper.worker) == [draft.digest]
    assert images_to_forget(PaperWorker(other_workspace, outsider).worker) == []
    DiscardedImage.objects.update(discarded_at=timezone.now() - UNNAMED)
    assert clear_discarded() == 0
    Worker.objects.update(images=[])
    assert clear_discarded() == 1
    assert images_to_forget(paper.worker) == []


def test_an_image_of_which_nobody_has_heard_yet_stays_to_be_forgotten_for_a_while(
    hold: Hold, paper: PaperWorker, mia: Actor, admin: User
) -> None:
    answer(paper, draft_from(hold, name="mine", actor=mia))
    discard_draft(TemplateVersion.objects.get(status="draft"), actor=Actor.person(admin))
    assert clear_discarded() == 0
    assert len(images_to_forget(paper.worker)) == 1


def test_an_image_that_another_version_has_or_may_be_about_to_have_is_not_forgotten(
    hold: Hold, paper: PaperWorker, mia: Actor, admin: User
) -> None:
    answer(paper, draft_from(hold, name="mine", actor=mia))
    draft = TemplateVersion.objects.get(status="draft")
    discard_draft(draft, actor=Actor.person(admin))
    ask = draft_from(hold, name="mine", actor=mia)
    assert images_to_forget(paper.worker) == [], "nothing was changed since, perhaps"
    answer(paper, ask, error="no room left")
    assert images_to_forget(paper.worker) == [draft.digest]
    TemplateVersionFactory(workspace=hold.workspace, name="other", digest=draft.digest)
    assert images_to_forget(paper.worker) == []


@pytest.mark.parametrize("verb", [publish_draft, discard_draft])
def test_a_draft_whose_image_is_being_made_waits(hold: Hold, mia: Actor, admin: User, verb: Any) -> None:
    draft_from(hold, name="mine", actor=mia)
    with pytest.raises(NotMadeYet):
        verb(TemplateVersion.objects.get(status="draft"), actor=Actor.person(admin))
