"""Reading OSWorld's task format, its known dirt included."""

from typing import Any

import pytest

from desktops.worker.task import BadTask, clean, digest, parse


def raw(**changes: Any) -> dict[str, Any]:
    task: dict[str, Any] = {
        "id": "t",
        "snapshot": "os",
        "instruction": " Do it. ",
        "source": "somewhere",
        "config": [{"type": "execute", "parameters": {"command": "true", "shell": True}}],
        "trajectory": "trajectories/",
        "related_apps": ["os"],
        "evaluator": {
            "func": "exact_match",
            "result": {"type": "vm_command_line", "command": "ls", "shell": True},
            "expected": {"type": "rule", "rules": {"expected": "true"}},
        },
    }
    return task | changes


def evaluator(**changes: Any) -> dict[str, Any]:
    return {**raw()["evaluator"], **changes}


def test_a_clean_task_is_read_as_it_stands() -> None:
    task = parse(raw())
    assert task.id == "t"
    assert task.instruction == "Do it."
    assert task.setup[0].type == "execute"
    check = task.evaluator.checks[0]
    assert check.metric == "exact_match"
    assert check.result is not None
    assert check.result.parameters == {"command": "ls", "shell": True}
    assert task.evaluator.conj == "and"


def test_cleaning_twice_changes_nothing() -> None:
    dirty = raw(
        config=[None, {"type": "command", "parameters": {"command": "x", "shell": "true"}}],
        evaluator=evaluator(func=["a", "b"], options={"x": 1}),
    )
    once = clean(dirty)
    assert clean(once) == once
    assert digest(clean(once)) == digest(once)


def test_a_flag_as_text_becomes_a_flag() -> None:
    task = parse(
        raw(config=[{"type": "execute", "parameters": {"command": "x", "shell": "true"}}], proxy="false")
    )
    assert task.setup[0].parameters["shell"] is True
    assert task.proxy is False


@pytest.mark.parametrize(("said", "kept"), [(False, False), ("false", False), (True, True), ("true", True)])
def test_a_task_may_say_that_its_setup_is_not_kept(said: object, kept: bool) -> None:
    assert clean(raw(keep_setup=said)).get("keep_setup", True) is kept
    assert clean(raw()).get("keep_setup", True)


def test_the_text_true_as_a_value_stays_a_text() -> None:
    expected = parse(raw()).evaluator.checks[0].expected
    assert expected is not None
    assert expected.parameters["rules"] == {"expected": "true"}


def test_the_key_with_a_colon_loses_it() -> None:
    rules = {"type:": "key-value", "key": "theme", "value": "x"}
    expected = (
        parse(raw(evaluator=evaluator(expected={"type": "rule", "rules": rules})))
        .evaluator.checks[0]
        .expected
    )
    assert expected is not None
    assert expected.parameters["rules"] == {"type": "key-value", "key": "theme", "value": "x"}


def test_the_key_with_a_colon_does_not_displace_the_right_one() -> None:
    rules = {"type:": "wrong", "type": "right"}
    expected = (
        parse(raw(evaluator=evaluator(expected={"type": "rule", "rules": rules})))
        .evaluator.checks[0]
        .expected
    )
    assert expected is not None
    assert expected.parameters["rules"] == {"type": "right"}


def test_nulls_among_steps_are_dropped() -> None:
    step = {"type": "sleep", "parameters": {"seconds": 1}}
    task = parse(raw(config=[None, step, None], evaluator=evaluator(postconfig=[None, step])))
    assert [item.type for item in task.setup] == ["sleep"]
    assert [item.type for item in task.evaluator.postconfig] == ["sleep"]


def test_nulls_among_results_expecteds_and_options_mean_none_here() -> None:
    source = {"type": "rule", "rules": {}}
    checks = parse(
        raw(
            evaluator={
                "func": ["a", "b"],
                "result": [source, None],
                "expected": [None, source],
                "options": [None, {}],
            }
        )
    ).evaluator.checks
    assert [check.result is None for check in checks] == [False, True]
    assert [check.expected is None for check in checks] == [True, False]
    assert [check.options for check in checks] == [{}, {}]


def test_one_result_serves_several_metrics() -> None:
    checks = parse(raw(evaluator=evaluator(func=["a", "b"]))).evaluator.checks
    assert [check.metric for check in checks] == ["a", "b"]
    assert checks[0].result == checks[1].result


def test_a_list_of_one_serves_a_single_metric() -> None:
    source = {"type": "rule", "rules": {"a": 1}}
    check = parse(raw(evaluator={"func": "a", "result": [source], "expected": [source]})).evaluator.checks[0]
    assert check.result is not None


def test_lists_that_do_not_match_are_refused() -> None:
    source = {"type": "rule", "rules": {}}
    with pytest.raises(BadTask, match="3 metrics and 2 entries in result"):
        parse(raw(evaluator={"func": ["a", "b", "c"], "result": [source, source]}))


def test_apps_have_one_spelling() -> None:
    names = ["libreoffice calc", "Writer", "vs_code", "browser", "os", None, "calc"]
    assert parse(raw(related_apps=names)).related_apps == [
        "libreoffice_calc",
        "libreoffice_writer",
        "vscode",
        "chrome",
        "os",
    ]


def test_placeholders_are_filled() -> None:
    click = "click({SCREEN_WIDTH_HALF}, {SCREEN_HEIGHT_HALF}) {SCREEN_WIDTH}x{SCREEN_HEIGHT}"
    task = parse(
        raw(
            config=[
                {"type": "execute", "parameters": {"command": ["python", "-c", click]}},
                {"type": "execute", "parameters": {"command": "echo {CLIENT_PASSWORD} | sudo -S ls"}},
            ]
        )
    )
    assert task.setup[0].parameters["command"][2] == "click(960, 540) 1920x1080"
    assert task.setup[1].parameters["command"] == "echo password | sudo -S ls"


def test_braces_that_are_no_placeholder_stay() -> None:
    task = parse(raw(config=[{"type": "execute", "parameters": {"command": "awk '{print $5}' {}"}}]))
    assert task.setup[0].parameters["command"] == "awk '{print $5}' {}"


def test_an_infeasible_task_needs_neither_result_nor_expected() -> None:
    task = parse(raw(evaluator={"func": "infeasible"}))
    assert task.evaluator.infeasible
    assert task.evaluator.checks[0].result is None


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ([], "no JSON object"),
        ({"id": "t"}, "no instruction"),
        (raw(evaluator=[]), "no evaluator"),
        (raw(evaluator={"func": None}), "names no function"),
        (raw(evaluator={"func": []}), "names no function"),
        (raw(evaluator=evaluator(conj="xor")), "xor"),
        (raw(evaluator=evaluator(result="x")), "neither an object nor a list"),
        (raw(evaluator=evaluator(result={"command": "x"})), "has no type"),
        (raw(config="x"), "config is not a list"),
        (raw(config=[{"parameters": {}}]), "has no type"),
        (raw(config=[{"type": "sleep", "parameters": [1]}]), "parameters"),
    ],
)
def test_what_is_no_task_is_refused_with_a_sentence(task: Any, sentence: str) -> None:
    with pytest.raises(BadTask, match=sentence):
        parse(task)
