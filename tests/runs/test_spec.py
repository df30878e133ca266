"""The one check of a run document: each range and each rule, and that a refusal names its field."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from console.models import Workspace
from runs import limits
from runs.models import Run
from runs.spec import FIELDS, NOT_OFFERED, SpecRejected, check, check_fields
from tests.factories import TaskFactory, TaskSetFactory, TemplateVersionFactory, document

pytestmark = pytest.mark.django_db

RANGED = {
    "parallel_copies": limits.PARALLEL_COPIES,
    "fork_copies": limits.FORK_COPIES,
    "prefix_steps": limits.PREFIX_STEPS,
    "max_steps": limits.MAX_STEPS,
    "rounds": limits.ROUNDS,
    "time_cap_minutes": limits.TIME_CAP_MINUTES,
}


@pytest.fixture
def good(material: dict[str, Any]) -> dict[str, Any]:
    return document("basics", ["task-1", "task-2"])


def refused(workspace: Workspace, document: Any) -> set[tuple[str, str]]:
    with pytest.raises(SpecRejected) as caught:
        check(document, workspace=workspace)
    assert all(error.message for error in caught.value.errors)
    assert Run.objects.count() == 0
    return {(error.field, error.code) for error in caught.value.errors}


def messages(workspace: Workspace, document: Any, field: str) -> str:
    with pytest.raises(SpecRejected) as caught:
        check(document, workspace=workspace)
    return " ".join(error.message for error in caught.value.errors if error.field == field)


def test_a_good_document_passes_as_it_is(workspace: Workspace, good: dict[str, Any]) -> None:
    checked = check(good, workspace=workspace)
    assert checked.spec == good
    assert [task.task_id for task in checked.tasks] == ["task-1", "task-2"]
    assert checked.planned == 2
    assert checked.spend_cap == Decimal("0.50")


def test_defaults_are_filled_in(workspace: Workspace, good: dict[str, Any]) -> None:
    short = {key: good[key] for key in ("kind", "task_set", "tasks", "template", "spend_cap_usd")}
    checked = check(short, workspace=workspace)
    assert checked.spec == {**good, "name": "Scripted test: basics, 2 tasks"}
    assert tuple(checked.spec) == FIELDS


@pytest.mark.parametrize("name", [None, "", "   "])
def test_a_run_without_a_name_gets_one(workspace: Workspace, good: dict[str, Any], name: str | None) -> None:
    spec = check({**good, "name": name, "tasks": ["task-2"]}, workspace=workspace).spec
    assert spec["name"] == "Scripted test: Task 2"


@pytest.mark.parametrize("name", ["two\nlines", "bell\x07", "\u202eesrever", "tab\there", "\u2028"])
def test_a_name_is_one_line_of_what_can_be_seen(
    workspace: Workspace, good: dict[str, Any], name: str
) -> None:
    assert refused(workspace, {**good, "name": f"a {name} b"}) == {("name", "control_characters")}


def test_a_name_of_nothing_visible_is_none(workspace: Workspace, good: dict[str, Any]) -> None:
    assert refused(workspace, {**good, "name": "\u200b\u2060"}) == {("name", "control_characters")}


def test_tasks_keep_the_order_of_the_document(workspace: Workspace, good: dict[str, Any]) -> None:
    checked = check({**good, "tasks": ["task-2", "task-1"]}, workspace=workspace)
    assert [task.task_id for task in checked.tasks] == ["task-2", "task-1"]


def test_the_plan_is_the_product_of_its_parts(workspace: Workspace, good: dict[str, Any]) -> None:
    plan = {"parallel_copies": 8, "fork_copies": 8, "prefix_steps": 1, "rounds": 50}
    assert check({**good, **plan}, workspace=workspace).planned == 2 * 8 * 8 * 50


@pytest.mark.parametrize("field", RANGED)
def test_both_ends_of_a_range_are_allowed(workspace: Workspace, good: dict[str, Any], field: str) -> None:
    for value in (RANGED[field].low, RANGED[field].high):
        changed = {**good, "prefix_steps": 1, field: value}
        assert check(changed, workspace=workspace).spec[field] == value


@pytest.mark.parametrize("field", RANGED)
def test_beyond_a_range_is_refused(workspace: Workspace, good: dict[str, Any], field: str) -> None:
    allowed = RANGED[field]
    assert (field, "min_value") in refused(workspace, {**good, field: allowed.low - 1})
    assert (field, "max_value") in refused(workspace, {**good, field: allowed.high + 1})
    assert f"between {allowed.low} and {allowed.high:,}" in messages(
        workspace, {**good, field: allowed.high + 1}, field
    )


@pytest.mark.parametrize("field", [*RANGED, "stop_after_valid"])
@pytest.mark.parametrize("value", [True, "3", 1.0, Decimal(1), [1], {}])
def test_only_a_json_integer_is_a_number(
    workspace: Workspace, good: dict[str, Any], field: str, value: Any
) -> None:
    assert (field, "invalid") in refused(workspace, {**good, field: value})


@pytest.mark.parametrize("field", RANGED)
def test_null_is_no_number(workspace: Workspace, good: dict[str, Any], field: str) -> None:
    assert (field, "null") in refused(workspace, {**good, field: None})


@pytest.mark.parametrize("field", ["kind", "task_set", "tasks", "template", "spend_cap_usd"])
def test_a_required_field_is_named(workspace: Workspace, good: dict[str, Any], field: str) -> None:
    short = dict(good)
    del short[field]
    assert refused(workspace, short) == {(field, "required")}
    assert refused(workspace, {**good, field: None}) == {(field, "null")}


@pytest.mark.parametrize("kind", ["evaluation", "training"])
def test_what_is_not_offered_says_why(workspace: Workspace, good: dict[str, Any], kind: str) -> None:
    assert refused(workspace, {**good, "kind": kind}) == {("kind", "not_offered")}
    said = messages(workspace, {**good, "kind": kind}, "kind")
    assert said == NOT_OFFERED[kind]
    assert "in this version" in said
    assert "yet" not in said
    assert said.endswith("Use scripted_test.")


@pytest.mark.parametrize("kind", ["nonsense", "", 3, ["scripted_test"], {}])
def test_an_unknown_kind_is_refused(workspace: Workspace, good: dict[str, Any], kind: Any) -> None:
    assert {field for field, _ in refused(workspace, {**good, "kind": kind})} == {"kind"}


def test_an_unknown_field_is_named_with_what_was_meant(workspace: Workspace, good: dict[str, Any]) -> None:
    assert refused(workspace, {**good, "max_step": 3}) == {("max_step", "unknown_field")}
    assert "max_steps" in messages(workspace, {**good, "max_step": 3}, "max_step")


@pytest.mark.parametrize("document", [None, [], "run", 3, True])
def test_a_document_is_an_object(workspace: Workspace, document: Any) -> None:
    assert refused(workspace, document) == {("", "not_an_object")}


def test_an_unknown_task_set_is_refused(workspace: Workspace, good: dict[str, Any]) -> None:
    assert refused(workspace, {**good, "task_set": "nope"}) == {("task_set", "unknown_task_set")}
    assert "basics" in messages(workspace, {**good, "task_set": "nope"}, "task_set")


def test_the_task_set_of_another_workspace_is_unknown(
    workspace: Workspace, other_workspace: Workspace, good: dict[str, Any]
) -> None:
    TaskSetFactory(workspace=other_workspace, name="theirs")
    assert refused(workspace, {**good, "task_set": "theirs"}) == {("task_set", "unknown_task_set")}
    assert "theirs" not in messages(workspace, {**good, "task_set": "theirs"}, "task_set")


def test_only_the_newest_version_of_a_set_counts(workspace: Workspace, good: dict[str, Any]) -> None:
    from runs.models import TaskSet

    TaskSet.objects.update(is_current=False)
    newer = TaskSetFactory(workspace=workspace, version=2, tasks=3)
    checked = check({**good, "tasks": ["task-3"]}, workspace=workspace)
    assert checked.task_set == newer


def test_unknown_tasks_are_listed(workspace: Workspace, good: dict[str, Any]) -> None:
    bad = {**good, "tasks": ["task-1", "task-9", "task-8"]}
    assert refused(workspace, bad) == {("tasks", "unknown_task")}
    assert messages(workspace, bad, "tasks") == "Not in basics@1: task-9, task-8."


def test_a_task_twice_is_refused(workspace: Workspace, good: dict[str, Any]) -> None:
    assert refused(workspace, {**good, "tasks": ["task-1", "task-1"]}) == {("tasks", "duplicate_task")}


@pytest.mark.parametrize(
    ("tasks", "code"),
    [
        ([], "empty"),
        ("task-1", "not_a_list"),
        ({"task-1": 1}, "not_a_list"),
        ([3], "invalid"),
        ([None], "null"),
        ([["task-1"]], "invalid"),
        ([""], "blank"),
        (["t" * 101], "max_length"),
        ([f"task-{n}" for n in range(limits.TASKS.high + 1)], "max_length"),
    ],
)
def test_tasks_are_a_list_of_ids(workspace: Workspace, good: dict[str, Any], tasks: Any, code: str) -> None:
    found = refused(workspace, {**good, "tasks": tasks})
    assert {field for field, _ in found} == {"tasks"}
    assert code in {code for _, code in found} | ({"empty"} if ("tasks", "min_length") in found else set())


@pytest.mark.parametrize(
    ("item", "why"), [(None, "must not be null"), ("", "may not be blank"), (3, "Must be a string")]
)
def test_what_is_wrong_with_one_of_many_tasks_names_its_place(
    workspace: Workspace, good: dict[str, Any], item: Any, why: str
) -> None:
    with pytest.raises(SpecRejected) as caught:
        check({**good, "tasks": ["task-1", item]}, workspace=workspace)
    (error,) = caught.value.errors
    assert error.message.startswith("Item 2: ")
    assert why in error.message


def test_as_many_tasks_as_allowed_fit(workspace: Workspace, good: dict[str, Any]) -> None:
    TaskSetFactory(workspace=workspace, name="large", tasks=limits.TASKS.high)
    ids = [f"task-{n}" for n in range(1, limits.TASKS.high + 1)]
    assert (
        check({**good, "task_set": "large", "tasks": ids}, workspace=workspace).planned == limits.TASKS.high
    )


def test_tasks_without_a_recipe_are_listed(
    workspace: Workspace, good: dict[str, Any], material: dict[str, Any]
) -> None:
    for name in ("bare-b", "bare-a"):
        TaskFactory(task_set=material["task_set"], task_id=name, recipe=None)
    bad = {**good, "tasks": ["bare-b", "task-1", "bare-a"]}
    assert refused(workspace, bad) == {("tasks", "no_recipe")}
    assert "bare-a, bare-b" in messages(workspace, bad, "tasks")


def test_a_template_needs_its_version(workspace: Workspace, good: dict[str, Any]) -> None:
    assert refused(workspace, {**good, "template": "basic"}) == {("template", "version_missing")}
    assert "basic@1" in messages(workspace, {**good, "template": "basic"}, "template")


@pytest.mark.parametrize(
    "template",
    ["basic@2", "nope@1", "basic@x", "basic@-1", "basic@01", "@1", "basic@", "basic@1@1", "basic@٣"],
)
def test_an_unknown_template_is_refused(workspace: Workspace, good: dict[str, Any], template: str) -> None:
    assert refused(workspace, {**good, "template": template}) == {("template", "unknown_template")}
    assert "Published: basic@1." in messages(workspace, {**good, "template": template}, "template")


def test_the_template_of_another_workspace_is_unknown(
    workspace: Workspace, other_workspace: Workspace, good: dict[str, Any]
) -> None:
    TemplateVersionFactory(workspace=other_workspace, name="theirs")
    assert refused(workspace, {**good, "template": "theirs@1"}) == {("template", "unknown_template")}


def test_a_draft_template_is_refused(workspace: Workspace, good: dict[str, Any]) -> None:
    TemplateVersionFactory(workspace=workspace, version=2, draft=True)
    assert refused(workspace, {**good, "template": "basic@2"}) == {("template", "draft_template")}


def test_a_retired_template_is_refused(workspace: Workspace, good: dict[str, Any]) -> None:
    TemplateVersionFactory(workspace=workspace, version=2, status="retired")
    assert refused(workspace, {**good, "template": "basic@2"}) == {("template", "retired_template")}


def test_a_template_without_the_apps_of_a_task_is_refused(
    workspace: Workspace, good: dict[str, Any], material: dict[str, Any]
) -> None:
    TaskFactory(task_set=material["task_set"], task_id="sheet", templates=["office"])
    bad = {**good, "tasks": ["task-1", "sheet"]}
    assert refused(workspace, bad) == {("template", "lacks_apps")}
    told = messages(workspace, bad, "template")
    assert "sheet" in told
    assert "office" in told
    assert "task-1" not in told


def test_a_template_made_from_others_has_their_applications(
    workspace: Workspace, good: dict[str, Any], material: dict[str, Any]
) -> None:
    basic = TemplateVersionFactory(workspace=workspace)
    first = TemplateVersionFactory(workspace=workspace, name="mine", base=basic)
    TemplateVersionFactory(workspace=workspace, name="mine", version=2, base=first)
    assert str(check({**good, "template": "mine@2"}, workspace=workspace).template_version) == "mine@2"
    TaskFactory(task_set=material["task_set"], task_id="sheet", templates=["office"])
    bad = {**good, "tasks": ["sheet"], "template": "mine@2"}
    assert refused(workspace, bad) == {("template", "lacks_apps")}


def test_a_fork_needs_a_prefix(workspace: Workspace, good: dict[str, Any]) -> None:
    assert refused(workspace, {**good, "fork_copies": 2}) == {("fork_copies", "fork_needs_prefix")}


def test_parallel_copies_stay_within_the_workspace(workspace: Workspace, good: dict[str, Any]) -> None:
    workspace.run_parallelism = 3
    bad = {**good, "parallel_copies": 4}
    assert refused(workspace, bad) == {("parallel_copies", "above_run_parallelism")}
    assert check({**good, "parallel_copies": 3}, workspace=workspace).planned == 6


def test_the_target_is_within_the_plan(workspace: Workspace, good: dict[str, Any]) -> None:
    assert check({**good, "stop_after_valid": 2}, workspace=workspace).spec["stop_after_valid"] == 2
    assert refused(workspace, {**good, "stop_after_valid": 3}) == {("stop_after_valid", "above_planned")}
    assert refused(workspace, {**good, "stop_after_valid": 0}) == {("stop_after_valid", "min_value")}


@pytest.mark.parametrize("model", ["gpt", {}, {"endpoint": "https://x"}, 0, False, []])
def test_a_scripted_test_plays_no_model(workspace: Workspace, good: dict[str, Any], model: Any) -> None:
    assert refused(workspace, {**good, "model": model}) == {("model", "not_allowed")}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("0.01", "0.01"),
        ("0.5", "0.50"),
        ("12", "12.00"),
        (" 3.10 ", "3.10"),
        (5, "5.00"),
        (0.1, "0.10"),
        (0.29, "0.29"),
        (Decimal("0.29"), "0.29"),
        (Decimal("1E+2"), "100.00"),
        ("100000", "100000.00"),
    ],
)
def test_an_amount_is_read_exactly(
    workspace: Workspace, good: dict[str, Any], given: Any, stored: str
) -> None:
    checked = check({**good, "spend_cap_usd": given}, workspace=workspace)
    assert checked.spec["spend_cap_usd"] == stored
    assert checked.spend_cap == Decimal(stored)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (0, "min_value"),
        ("0", "min_value"),
        ("0.00", "min_value"),
        (-1, "min_value"),
        ("-0.01", "min_value"),
        ("0.001", "too_many_decimals"),
        ("1.005", "too_many_decimals"),
        (1.005, "too_many_decimals"),
        ("0.500", "too_many_decimals"),
        ("100000.01", "max_value"),
        (10**4000, "max_value"),
        (1e300, "max_value"),
        (Decimal("1E+400000"), "max_value"),
        (True, "invalid"),
        ("", "invalid"),
        ("lots", "invalid"),
        ("1e2", "invalid"),
        ("1,50", "invalid"),
        ("$1", "invalid"),
        ("NaN", "invalid"),
        ("Infinity", "invalid"),
        ("١", "invalid"),
        (float("inf"), "invalid"),
        (float("nan"), "invalid"),
        ([], "invalid"),
        ({}, "invalid"),
    ],
)
def test_a_bad_amount_is_refused(workspace: Workspace, good: dict[str, Any], given: Any, code: str) -> None:
    assert refused(workspace, {**good, "spend_cap_usd": given}) == {("spend_cap_usd", code)}


@pytest.mark.parametrize("name", ["n" * (limits.NAME_LENGTH + 1), 3, True, ["x"], "a\x00b", "a\ud800"])
def test_a_bad_name_is_refused(workspace: Workspace, good: dict[str, Any], name: Any) -> None:
    assert {field for field, _ in refused(workspace, {**good, "name": name})} == {"name"}


def test_all_errors_come_at_once(workspace: Workspace, good: dict[str, Any]) -> None:
    bad = {**good, "kind": "training", "rounds": 0, "tasks": ["nope"], "template": "nope@1", "fork_copies": 2}
    assert {field for field, _ in refused(workspace, bad)} == {
        "kind",
        "rounds",
        "tasks",
        "template",
        "fork_copies",
    }


def test_a_hostile_document_gets_a_bounded_reply(workspace: Workspace) -> None:
    with pytest.raises(SpecRejected) as caught:
        check({f"{n}" * 300: n for n in range(1000)}, workspace=workspace)
    assert len(caught.value.errors) == 50
    assert max(len(error.field) for error in caught.value.errors) == 100


def test_a_wizard_step_asks_about_its_own_fields(workspace: Workspace, material: dict[str, Any]) -> None:
    draft = {"kind": "scripted_test", "task_set": "basics", "tasks": ["task-1", "nope"]}
    errors = check_fields(draft, ["kind", "task_set", "tasks"], workspace=workspace)
    assert [(error.field, error.code) for error in errors] == [("tasks", "unknown_task")]
    draft["tasks"] = ["task-1"]
    assert check_fields(draft, ["kind", "task_set", "tasks"], workspace=workspace) == []
    [error] = check_fields(draft, ["spend_cap_usd", "time_cap_minutes"], workspace=workspace)
    assert (error.field, error.code) == ("spend_cap_usd", "required")


def test_the_check_asks_the_database_a_fixed_number_of_times(
    workspace: Workspace, good: dict[str, Any], django_assert_num_queries: Any
) -> None:
    TaskSetFactory(workspace=workspace, name="large", tasks=100)
    for changed in (good, {**good, "task_set": "large", "tasks": [f"task-{n}" for n in range(1, 101)]}):
        with django_assert_num_queries(4):
            check(changed, workspace=workspace)
