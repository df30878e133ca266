"""The New run wizard: five steps, one draft, the API's own document and the API's own sentences."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.models import User, Workspace
from runs import spec
from runs.models import Run, RunDraft, Task
from tests import factories

ClientFor = Callable[[User], Client]


class Wizard:
    """Somebody at the wizard."""

    def __init__(self, client: Client, workspace: Workspace) -> None:
        self.client, self.workspace = client, workspace

    def address(self, step: str) -> str:
        return reverse("run-new-step", args=[self.workspace.slug, step])

    def show(self, step: str) -> str:
        reply = self.client.get(self.address(step))
        assert reply.status_code == 200, (reply.status_code, reply.headers.get("Location"))
        return html.unescape(reply.content.decode())

    def leads_to(self, step: str) -> str:
        """Where a visit of a step ends: the step itself, or one before it."""
        reply = self.client.get(self.address(step), follow=True)
        return str(reply.context["here"].slug)

    def fill(self, step: str, **form: Any) -> str:
        """Post a step; the slug of the step that is shown next."""
        reply = self.client.post(self.address(step), form)
        assert reply.status_code == 302
        return str(reply["Location"]).split("/runs/new/")[1].split("/")[0]

    def fill_all(self, **changes: Any) -> None:
        self.fill(
            "workload", kind="scripted_test", name="nightly", task_set="basics", tasks=["task-1", "task-2"]
        )
        self.fill("environment", template="basic@1")
        execution = {"parallel_copies": 1, "rounds": 1, "prefix_steps": 0, "fork_copies": 1, "max_steps": 15}
        self.fill("execution", **{**execution, **changes})
        assert (
            self.fill("budget", spend_cap_usd="0.50", time_cap_minutes="30", stop_after_valid="") == "review"
        )

    @property
    def document(self) -> dict[str, Any]:
        return dict(RunDraft.objects.get(workspace=self.workspace).document)


@pytest.fixture
def wizard(client_for: ClientFor, member: User, workspace: Workspace, material: dict[str, Any]) -> Wizard:
    return Wizard(client_for(member), workspace)


def test_five_steps_build_the_document_and_launch_makes_its_run(wizard: Wizard, member: User) -> None:
    assert wizard.fill(
        "workload", kind="scripted_test", name="nightly", task_set="basics", tasks=["task-1"]
    ) == ("environment")
    assert wizard.fill("environment", template="basic@1") == "execution"
    execution = {"parallel_copies": 2, "rounds": 3, "prefix_steps": 1, "fork_copies": 2, "max_steps": 20}
    assert wizard.fill("execution", **execution) == "budget"
    assert (
        wizard.fill("budget", spend_cap_usd="$1.50", time_cap_minutes="1,440", stop_after_valid="6")
        == "review"
    )
    page = wizard.show("review")
    reply = wizard.client.post(wizard.address("review"))
    run = Run.objects.get()
    assert reply["Location"] == reverse("run", args=[wizard.workspace.slug, run.number])
    assert run.spec == factories.document(
        "basics",
        ["task-1"],
        name="nightly",
        **execution,
        spend_cap_usd="1.50",
        time_cap_minutes=1440,
        stop_after_valid=6,
    )
    assert (run.planned, run.creator, run.status) == (12, member, "queued")
    assert '"parallel_copies": 2' in page
    assert not RunDraft.objects.exists()


def test_why_only_scripted_tests_can_be_chosen_promises_nothing(wizard: Wizard) -> None:
    page = wizard.show("workload")
    assert "no part that sends the screen to a model" in page
    assert "the API does not let your own code play a task either" in page
    assert "Not offered yet" not in page
    assert "operator" not in page.split('id="no-eval"')[1].split("</details>")[0]


def test_the_review_shows_the_request_and_a_command_that_say_the_same(wizard: Wizard) -> None:
    wizard.fill_all(rounds=4)
    reply = wizard.client.get(wizard.address("review"))
    document = reply.context["request_document"]
    assert spec.check(document, workspace=wizard.workspace).spec == document
    assert [sample.slug for sample in reply.context["samples"]] == ["json", "curl"]
    for sample in reply.context["samples"]:
        assert "task-2" in sample.text
        assert "0.50" in sample.text
        assert html.escape("nightly") in reply.content.decode()


def test_the_review_names_the_tasks_that_max_steps_cut_short(wizard: Wizard) -> None:
    Task.objects.filter(task_id="task-2").update(recipe=[{"action": "wait", "seconds": 1}] * 15)
    wizard.fill_all(max_steps=15)
    assert "cut-short" not in wizard.show("review")
    wizard.fill_all(max_steps=14)
    warning = wizard.show("review").split('id="cut-short"')[1].split("</div>")[0]
    assert "Max steps 14 ends 1 of 2 tasks before its recipe does." in warning
    assert "task-2</span> (15)" in warning
    assert "task-1" not in warning
    assert "Raise max steps to 15" in warning


def test_a_name_with_quotes_cannot_leave_the_command_or_the_page(wizard: Wizard) -> None:
    name = "it's </pre><script>alert(1)</script>"
    wizard.fill_all()
    wizard.fill("workload", kind="scripted_test", name=name, task_set="basics", tasks=["task-1"])
    reply = wizard.client.get(wizard.address("review"))
    assert "<script>alert" not in reply.content.decode()
    curl = next(sample.text for sample in reply.context["samples"] if sample.slug == "curl")
    assert "it'\"'\"'s" in curl


def test_a_later_step_leads_back_to_the_first_that_is_not_filled_in(wizard: Wizard) -> None:
    assert wizard.leads_to("review") == "workload"
    wizard.fill("workload", kind="scripted_test", name="", task_set="basics", tasks=["task-1"])
    assert wizard.leads_to("budget") == "environment"
    wizard.fill_all()
    assert wizard.leads_to("review") == "review"
    wizard.fill("execution", parallel_copies=1, rounds=99, prefix_steps=0, fork_copies=1, max_steps=15)
    assert wizard.leads_to("review") == "execution"


def test_new_run_goes_on_where_the_draft_is(wizard: Wizard) -> None:
    def landing() -> str:
        reply = wizard.client.get(reverse("run-new", args=[wizard.workspace.slug]), follow=True)
        return str(reply.context["here"].slug)

    assert landing() == "workload"
    wizard.fill("workload", kind="scripted_test", name="", task_set="basics", tasks=["task-1"])
    assert landing() == "environment"
    wizard.fill_all()
    assert landing() == "review"


@pytest.mark.parametrize(
    ("step", "form", "field"),
    [
        ("workload", {"kind": "evaluation", "task_set": "basics", "tasks": ["task-1"]}, "kind"),
        ("workload", {"kind": "training", "task_set": "basics", "tasks": ["task-1"]}, "kind"),
        ("workload", {"kind": "scripted_test", "task_set": "none", "tasks": ["task-1"]}, "task_set"),
        ("workload", {"kind": "scripted_test", "task_set": "basics", "tasks": []}, "tasks"),
        ("workload", {"kind": "scripted_test", "task_set": "basics", "name": "x" * 121}, "name"),
        ("environment", {"template": "basic@9"}, "template"),
        ("environment", {"template": "basic@2"}, "template"),
        ("environment", {}, "template"),
        ("execution", {"parallel_copies": "9"}, "parallel_copies"),
        ("execution", {"parallel_copies": "0"}, "parallel_copies"),
        ("execution", {"fork_copies": "2"}, "fork_copies"),
        ("execution", {"prefix_steps": "21"}, "prefix_steps"),
        ("execution", {"max_steps": "51"}, "max_steps"),
        ("execution", {"max_steps": ""}, "max_steps"),
        ("execution", {"rounds": "many"}, "rounds"),
        ("execution", {"rounds": "1.5"}, "rounds"),
        ("execution", {"rounds": "1\x00"}, "rounds"),
        ("budget", {"spend_cap_usd": ""}, "spend_cap_usd"),
        ("budget", {"spend_cap_usd": "0"}, "spend_cap_usd"),
        ("budget", {"spend_cap_usd": "0.505"}, "spend_cap_usd"),
        ("budget", {"spend_cap_usd": "ten"}, "spend_cap_usd"),
        ("budget", {"time_cap_minutes": "1441"}, "time_cap_minutes"),
        ("budget", {"stop_after_valid": "3"}, "stop_after_valid"),
        ("budget", {"stop_after_valid": "0"}, "stop_after_valid"),
    ],
)
def test_bad_input_is_said_beside_its_field_in_the_api_s_words(
    wizard: Wizard, step: str, form: dict[str, Any], field: str
) -> None:
    factories.TemplateVersionFactory(workspace=wizard.workspace, version=2, draft=True)
    wizard.fill_all()
    whole = {
        "workload": {"kind": "scripted_test", "name": "", "task_set": "basics", "shown": "task-1 task-2"},
        "environment": {},
        "execution": {
            "parallel_copies": 1,
            "rounds": 1,
            "prefix_steps": 0,
            "fork_copies": 1,
            "max_steps": 15,
        },
        "budget": {"spend_cap_usd": "0.50", "time_cap_minutes": "30", "stop_after_valid": ""},
    }[step]
    assert wizard.fill(step, **{**whole, **form}) == step
    reply = wizard.client.get(wizard.address(step) + "?checked=1")
    page = html.unescape(reply.content.decode())
    said = spec.check_fields(wizard.document, [field], workspace=wizard.workspace)
    assert said, wizard.document
    assert reply.context["errors"][field] == said[0]
    assert page.count(said[0].message) >= 2  # beside the field, and in the note that links to it
    assert 'role="alert"' in page
    assert f'href="#f-{field}"' in page
    assert f'id="f-{field}"' in page
    assert not Run.objects.exists()


def test_what_was_typed_wrongly_is_still_in_its_field(wizard: Wizard) -> None:
    wizard.fill_all()
    wizard.fill("budget", spend_cap_usd="a lot", time_cap_minutes="soon", stop_after_valid="-1")
    page = wizard.show("budget")
    for typed in ("a lot", "soon", "-1"):
        assert f'value="{typed}"' in page


def test_ticks_survive_a_filter(wizard: Wizard) -> None:
    for place in range(3, 6):
        factories.TaskFactory(
            task_set=wizard.workspace.task_sets.get(),
            position=place,
            related_apps=["gimp"],
            title="A picture",
        )
    form: dict[str, Any] = {"kind": "scripted_test", "name": "", "task_set": "basics"}
    shown = "task-1 task-2 task-3 task-4 task-5"
    wizard.fill("workload", **form, tasks=["task-2", "task-4"], shown=shown, do="app:gimp")
    assert wizard.document["tasks"] == ["task-2", "task-4"]
    wizard.fill("workload", **form, tasks=["task-3"], shown="task-3 task-4 task-5", q="picture", do="filter")
    assert wizard.document["tasks"] == ["task-2", "task-3"]
    reply = wizard.client.get(wizard.address("workload") + "?app=gimp")
    assert [row.task_id for row, fits in reply.context["rows"] if fits] == ["task-3", "task-4", "task-5"]


def test_all_tasks_with_a_recipe_are_chosen_by_one_press(wizard: Wizard) -> None:
    factories.TaskFactory(task_set=wizard.workspace.task_sets.get(), position=3, recipe=None)
    form: dict[str, Any] = {"kind": "scripted_test", "name": "", "task_set": "basics"}
    wizard.fill("workload", **form, do="choose-recipes")
    assert wizard.document["tasks"] == ["task-1", "task-2"]
    wizard.fill("workload", **form, do="clear")
    assert wizard.document["tasks"] == []


def test_what_a_filter_shows_is_chosen_by_one_press_without_scripts(wizard: Wizard) -> None:
    for place in (3, 4):
        factories.TaskFactory(task_set=wizard.workspace.task_sets.get(), position=place, related_apps=["vlc"])
    form: dict[str, Any] = {"kind": "scripted_test", "name": "", "task_set": "basics"}
    shown = "task-1 task-2 task-3 task-4"
    wizard.fill("workload", **form, shown=shown, tasks=["task-1"], app="vlc", do="choose-shown")
    assert wizard.document["tasks"] == ["task-1", "task-3", "task-4"]


def test_tasks_without_a_recipe_are_named_and_can_be_dropped(wizard: Wizard) -> None:
    factories.TaskFactory(task_set=wizard.workspace.task_sets.get(), position=3, recipe=None)
    form: dict[str, Any] = {"kind": "scripted_test", "name": "", "task_set": "basics"}
    assert wizard.fill("workload", **form, tasks=["task-1", "task-3"]) == "workload"
    page = html.unescape(wizard.client.get(wizard.address("workload") + "?checked=1").content.decode())
    assert "no recipe is known for: task-3." in page
    wizard.fill("workload", **form, shown="task-1 task-3", tasks=["task-1", "task-3"], do="keep-recipes")
    assert wizard.document["tasks"] == ["task-1"]


def test_another_task_set_begins_with_nothing_chosen(wizard: Wizard) -> None:
    factories.TaskSetFactory(workspace=wizard.workspace, name="others", tasks=1)
    form: dict[str, Any] = {"kind": "scripted_test", "name": ""}
    wizard.fill("workload", **form, task_set="basics", tasks=["task-1"], do="filter")
    wizard.fill("workload", **form, task_set="others", tasks=["task-1"], do="filter")
    assert wizard.document["task_set"] == "others"
    assert wizard.document["tasks"] == []


def test_a_template_that_lacks_applications_cannot_be_chosen_and_says_why(wizard: Wizard) -> None:
    factories.TemplateVersionFactory(workspace=wizard.workspace, name="office")
    only_office = factories.TaskFactory(
        task_set=wizard.workspace.task_sets.get(), position=3, templates=["office"]
    )
    wizard.fill(
        "workload", kind="scripted_test", name="", task_set="basics", tasks=["task-1", only_office.task_id]
    )
    page = wizard.show("environment")
    assert "It lacks the applications of one chosen task." in page
    choices = wizard.client.get(wizard.address("environment")).context["choices"]
    assert [(str(one.version), bool(one.why_not)) for one in choices] == [
        ("office@1", False),
        ("basic@1", True),
    ]
    assert wizard.fill("environment", template="basic@1") == "environment"
    assert wizard.fill("environment", template="office@1") == "execution"


def test_a_template_made_from_one_that_runs_the_tasks_can_be_chosen(wizard: Wizard) -> None:
    wizard.fill("workload", kind="scripted_test", name="", task_set="basics", tasks=["task-1"])
    basic = wizard.client.get(wizard.address("environment")).context["choices"][0].version
    factories.TemplateVersionFactory(workspace=wizard.workspace, name="mine", base=basic)
    factories.TemplateVersionFactory(workspace=wizard.workspace, name="strange")
    choices = wizard.client.get(wizard.address("environment")).context["choices"]
    assert {str(one.version): bool(one.why_not) for one in choices} == {
        "basic@1": False,
        "mine@1": False,
        "strange@1": True,
    }
    assert wizard.fill("environment", template="mine@1") == "execution"


def test_a_cheaper_version_is_suggested(wizard: Wizard) -> None:
    factories.TemplateVersionFactory(workspace=wizard.workspace, name="office", rate_usd_per_hour="0.01")
    wizard.fill("workload", kind="scripted_test", name="", task_set="basics", tasks=["task-1"])
    choices = wizard.client.get(wizard.address("environment")).context["choices"]
    assert [str(one.version) for one in choices if one.suggested] == ["office@1"]


def test_the_plan_is_previewed_without_being_saved(wizard: Wizard) -> None:
    wizard.fill_all()
    before = wizard.document
    address = reverse("run-new-preview", args=[wizard.workspace.slug, "execution"])
    typed = {"parallel_copies": 2, "rounds": 5, "prefix_steps": 0, "fork_copies": 3, "max_steps": 15}
    reply = wizard.client.get(address, typed)
    page = reply.content.decode()
    assert reply.status_code == 200
    assert "<html" not in page
    assert "60 <small>attempts" in page
    assert "no prefix to share" in page
    assert wizard.document == before


def test_a_draft_is_its_person_s_and_its_workspace_s_own(
    wizard: Wizard, client_for: ClientFor, owner: User, workspace: Workspace
) -> None:
    wizard.fill_all()
    other = Wizard(client_for(owner), workspace)
    assert other.leads_to("review") == "workload"
    assert "Nothing saved yet" in other.show("workload")


def test_discard_forgets_the_draft(wizard: Wizard) -> None:
    wizard.fill_all()
    reply = wizard.client.post(reverse("run-new-discard", args=[wizard.workspace.slug]))
    assert reply.status_code == 302
    assert not RunDraft.objects.exists()
    assert wizard.leads_to("review") == "workload"


def test_launching_twice_makes_one_run(wizard: Wizard) -> None:
    wizard.fill_all()
    wizard.client.post(wizard.address("review"))
    reply = wizard.client.post(wizard.address("review"))
    assert reply["Location"] == reverse("run-list", args=[wizard.workspace.slug])
    assert Run.objects.count() == 1


def test_a_launch_that_is_refused_leads_to_the_field(wizard: Wizard) -> None:
    wizard.fill_all()
    # Between review and launch somebody lowers what one run may hold at once.
    wizard.fill("execution", parallel_copies=4, rounds=1, prefix_steps=0, fork_copies=1, max_steps=15)
    Workspace.objects.update(run_parallelism=2)
    reply = wizard.client.post(wizard.address("review"), follow=True)
    assert reply.context["here"].slug == "execution"
    assert "At most 2: the run parallelism" in reply.content.decode()
    assert not Run.objects.exists()
    assert RunDraft.objects.exists()


def test_a_run_again_opens_its_own_request_for_review(wizard: Wizard) -> None:
    run = factories.RunFactory(workspace=wizard.workspace)
    reply = wizard.client.post(reverse("run-rerun", args=[wizard.workspace.slug, run.number]), follow=True)
    assert reply.context["here"].slug == "review"
    wizard.client.post(wizard.address("review"))
    assert Run.objects.exclude(pk=run.pk).get().spec == run.spec


def test_a_rerun_asks_before_it_takes_the_place_of_a_draft(wizard: Wizard) -> None:
    run = factories.RunFactory(workspace=wizard.workspace)
    rerun = reverse("run-rerun", args=[wizard.workspace.slug, run.number])
    wizard.fill_all()
    wizard.fill("workload", name="precious", task_set="basics", tasks=["task-2"])
    kept = wizard.document
    page = wizard.client.post(rerun, follow=True).content.decode()
    assert "Replace your draft?" in page
    assert "precious" in page
    assert wizard.document == kept
    assert wizard.client.post(rerun, {"replace": "yes"}, follow=True).context["here"].slug == "review"
    assert wizard.document["tasks"] == run.spec["tasks"]
    # Its own request is no other draft.
    assert wizard.client.post(rerun, follow=True).context["here"].slug == "review"


def test_going_back_keeps_what_was_typed_be_it_wrong(wizard: Wizard) -> None:
    wizard.fill_all()
    assert wizard.fill("budget", spend_cap_usd="0.123", time_cap_minutes=7, do="back") == "execution"
    assert wizard.document["spend_cap_usd"] == "0.123"
    assert wizard.document["time_cap_minutes"] == 7
    assert "0.123" in wizard.show("budget")


def test_tasks_chosen_on_a_task_set_s_page_begin_a_draft(wizard: Wizard) -> None:
    address = reverse("run-new", args=[wizard.workspace.slug])
    reply = wizard.client.post(address, {"task_set": "basics", "tasks": ["task-2"]}, follow=True)
    assert reply.context["here"].slug == "workload"
    assert wizard.document == {"kind": "scripted_test", "task_set": "basics", "tasks": ["task-2"]}


def test_tasks_chosen_elsewhere_keep_the_rest_of_the_draft(wizard: Wizard) -> None:
    wizard.fill_all(rounds=7)
    wizard.client.post(
        reverse("run-new", args=[wizard.workspace.slug]), {"task_set": "basics", "tasks": "task-2"}
    )
    assert (wizard.document["tasks"], wizard.document["rounds"]) == (["task-2"], 7)
    assert "name" not in wizard.document


def test_an_empty_workspace_says_what_to_do(client_for: ClientFor, owner: User, workspace: Workspace) -> None:
    assert "No task set in this workspace yet" in Wizard(client_for(owner), workspace).show("workload")


def test_an_outsider_finds_nothing(
    wizard: Wizard, client_for: ClientFor, outsider: User, workspace: Workspace, other_workspace: Workspace
) -> None:
    run = factories.RunFactory(workspace=workspace)
    client = client_for(outsider)
    for step in ("workload", "review"):
        assert client.get(wizard.address(step)).status_code == 404
        assert client.post(wizard.address(step)).status_code == 404
    for slug in (workspace.slug, other_workspace.slug):
        assert client.post(reverse("run-rerun", args=[slug, run.number])).status_code == 404
    assert client.post(reverse("run-new-discard", args=[workspace.slug])).status_code == 404
    assert client.get(reverse("run-new-preview", args=[workspace.slug, "execution"])).status_code == 404


def test_wrong_methods_and_steps_are_refused(wizard: Wizard) -> None:
    slug = wizard.workspace.slug
    run = factories.RunFactory(workspace=wizard.workspace)
    assert wizard.client.get(reverse("run-new-discard", args=[slug])).status_code == 405
    assert wizard.client.get(reverse("run-rerun", args=[slug, run.number])).status_code == 302  # to the run
    assert wizard.client.put(wizard.address("workload")).status_code == 405
    assert wizard.client.get(wizard.address("dessert")).status_code == 404
    assert wizard.client.get(reverse("run-new-preview", args=[slug, "review"])).status_code == 404


def test_a_task_that_the_set_does_not_have_is_named(wizard: Wizard) -> None:
    address = reverse("run-new", args=[wizard.workspace.slug])
    reply = wizard.client.get(f"{address}?task=task-2&task=tsak-1", follow=True)
    page = html.unescape(reply.content.decode())
    assert "basics@1 has no task “tsak-1”. It is not among those below." in " ".join(
        re.sub("<[^>]+>", "", page).split()
    )
    assert reply.context["chosen"] == {"task-2"}
    assert not RunDraft.objects.exists()  # a visit keeps nothing
    wizard.client.post(address, {"task_set": "basics", "tasks": ["task-1", "tsak-2"]})
    assert "“tsak-2”" in wizard.show("workload")


def test_what_it_costs_is_said_above_the_fields_too(wizard: Wizard) -> None:
    wizard.fill_all()
    assert "At most $0.50." in wizard.show("budget").split('class="price"')[1].split("</p>")[0]
    assert "<b>$0.50</b> at most" in wizard.show("review").split('class="price"')[1].split("</p>")[0]
    preview = wizard.client.get(
        wizard.address("budget") + "preview/", {"spend_cap_usd": "0.75"}
    ).content.decode()
    assert 'id="price" hx-swap-oob="true"' in preview
    assert "At most $0.75." in preview
