"""The words for what the code names: reasons, events, actions. Words first; pages put the code beside them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from console.actions.tokens import CEILING
from console.money import dollars, money
from console.templatetags.deskyard import milliseconds, seconds
from runs.actions.advance import RETRIED_ENDED, SUPERVISOR
from runs.models import Event, Run

INVALID_REASONS: Final = {
    "desktop_start_failed": "No desktop could be started",
    "desktop_lost": "Desktop was lost",
    "guest_unreachable": "Guest agent stopped answering",
    "setup_failed": "A step of the task’s setup failed",
    "not_ready": "Desktop did not become ready",
    "checker_error": "Checker could not read the desktop",
    "fork_mismatch": "Fork did not look like its parent",
    "worker_lost": "Worker was lost",
    "paid_until_reached": "Paid time ran out",
    "human_intervened": "Somebody took the desktop over",
    "upload_failed": "A file could not be stored",
    "worker_stopped": "Worker was stopped",
    "worker_fault": "Worker broke",
}

# What else workers say of a desktop that is gone.
GONE: Final = {"finished": "Finished", "stopped": "Told to stop"}

# Who is at fault for an attempt without a verdict.
OURS: Final = set(INVALID_REASONS) - {"human_intervened", "paid_until_reached"}

# As the API and the exports name them, in the order of a run's life.
KINDS: Final = (
    "run_created",
    "run_status",
    "run_stopping",
    "cap_changed",
    "attempts_retried",
    "run_reopened",
    "round_created",
    "attempt_offered",
    "prefix_offered",
    "prefix_saved",
    "prefix_ended",
    "prefix_released",
    "state_saved",
    "forked",
    "computer_started",
    "computer_ready",
    "computer_stopped",
    "desktop_taken_over",
    "setup_awaited",
    "setup_done",
    "step",
    "attempt_verifying",
    "attempt_verdict",
    "try_failed",
    "attempt_ended",
)

ACTION_ICONS: Final = {
    "click": "mouse-pointer-click",
    "double_click": "mouse-pointer-click",
    "move": "mouse-pointer-2",
    "drag": "hand",
    "scroll": "mouse",
    "type": "type",
    "key": "keyboard",
    "wait": "hourglass",
    "done": "flag",
    "fail": "x",
}


class Told(NamedTuple):
    """`of_attempt`: the sentence goes on after "Attempt 7"; otherwise it stands alone."""

    icon: str
    hue: str
    sentence: str
    of_attempt: bool = True

    @property
    def alone(self) -> str:
        """As a sentence of its own. A computer keeps its small c."""
        return self.sentence[:1].upper() + self.sentence[1:] if self.of_attempt else self.sentence


def reason(code: str) -> str:
    return INVALID_REASONS.get(code, code.replace("_", " ").capitalize())


def why_gone(reason: str) -> str:
    """Why a desktop ended, as its worker said: by a code, or in a sentence already."""
    return GONE.get(reason) or INVALID_REASONS.get(reason, reason)


def reasons(codes: list[str]) -> str:
    return ", ".join(reason(code) for code in codes).capitalize() if codes else ""


def action_words(action: Mapping[str, Any]) -> str:
    """What an action does, without its name: `412, 188`, `“three”`, `ctrl+shift+s`."""
    match action.get("action"):
        case "click" | "double_click" | "move":
            held = "+".join(action.get("keys") or [])
            button = action.get("button", "left")
            words = f"{action['x']}, {action['y']}"
            words = words if button == "left" else f"{words}, {button} button"
            return f"{words} with {held}" if held else words
        case "drag":
            return f"{action['x']}, {action['y']} to {action['to_x']}, {action['to_y']}"
        case "scroll":
            dx, dy = action.get("dx", 0), action.get("dy", 0)
            ways = [f"{abs(dy)} {'down' if dy > 0 else 'up'}"] if dy else []
            ways += [f"{abs(dx)} {'right' if dx > 0 else 'left'}"] if dx else []
            return " and ".join(ways) or "nothing"
        case "type":
            text = str(action["text"]).replace("\n", "⏎").replace("\t", "⇥")
            return f"“{text}”" if len(text) <= 80 else f"“{text[:79]}…”"
        case "key":
            chord = "+".join(action["keys"])
            times = action.get("times", 1)
            return chord if times == 1 else f"{chord}, {times} times"
        case "wait":
            window = action.get("window")
            limit = f"at most {action.get('seconds', 10):g} s"
            return f"for the window “{window}”, {limit}" if window else f"for the screen to settle, {limit}"
        case _:
            return ""


def describe(event: Event) -> Told:
    """One sentence for a row of the log. A kind this console does not know is named, never hidden."""
    told = _told(event.kind, event.data)
    if told.of_attempt and "prefix" in event.data:
        return told._replace(sentence=f"Prefix {event.data['prefix']:,} {told.sentence}", of_attempt=False)
    return told


def _told(kind: str, data: Mapping[str, Any]) -> Told:
    match kind:
        case "run_created":
            return Told(
                "plus", "", f"Created by {data['actor']}, {_attempts(data['planned'])} planned", False
            )
        case "run_status":
            why = _STOP_WORDS.get(data.get("reason", ""), "")
            label = dict(Run.Status.choices).get(data["new"], data["new"])
            return Told(
                data["new"], "", f"{label}: {why.lower()}" if why and why != label else str(label), False
            )
        case "run_stopping":
            why = _STOP_WORDS.get(data["reason"], data["reason"])
            return Told("octagon-x", "", f"Stopping: {why.lower()}{_by(data['actor'])}", False)
        case "cap_changed":
            return Told("wallet", "", f"{cap_words(data)}, by {data['actor']}", False)
        case "attempts_retried":
            return Told(
                "rotate-cw", "", f"{_attempts(data['attempts'])} to be tried again, by {data['actor']}", False
            )
        case "run_reopened":
            why = _STOP_WORDS.get(data["reason"], data["reason"]).lower()
            what = f"Reopened by {data['actor']} to try {_attempts(data['attempts'])} again"
            return Told("rotate-cw", "", f"{what}; it had ended: {why}", False)
        case "round_created":
            return Told("repeat-2", "", f"Round {data['round']} queued, {_attempts(data['attempts'])}", False)
        case "attempt_offered":
            again = f", try {data['try_number']}" if data["try_number"] > 1 else ""
            return Told("running", "live2", f"started on {data['worker']}{again}")
        case "prefix_offered":
            again = f", try {data['try_number']}" if data["try_number"] > 1 else ""
            return Told("running", "live2", f"of {data['task']} started on {data['worker']}{again}")
        case "prefix_saved":
            size, took = size_words(data["size_bytes"]), seconds(data["seconds"])
            return Told("git-fork", "", f"saved in {took}, {size}")
        case "prefix_ended":
            return _prefix_ended(data)
        case "prefix_released":
            return Told("circle-check", "", "is no longer needed, what was saved is deleted")
        case "state_saved":
            size, took = size_words(data["size_bytes"]), seconds(data["seconds"])
            return Told("circle-check", "", f"saved after its setup in {took}, {size}")
        case "forked":
            return _forked(data)
        case "computer_started":
            return Told("monitor", "", f"{data['computer']} started on {data['worker']}", False)
        case "computer_ready":
            return Told("monitor", "", f"{data['computer']} ready in {seconds(data['seconds'])}", False)
        case "computer_stopped":
            up, cost = f"{data['seconds']:,.1f} s", money(data["cost_usd"])
            return Told("monitor-off", "", f"{data['computer']} is gone after {up}, {cost}", False)
        case "desktop_taken_over":
            what = f"{data['computer']} taken over by {data['by']}: no verdict will come of it"
            return Told("hand", "void", what, False)
        case "setup_awaited":
            return Told(
                "hourglass", "", "waits for another that sets up the same desktop, to start from that"
            )
        case "setup_done":
            steps = data["steps"]
            what = f"{steps} step" if steps == 1 else f"{steps} steps"
            what = "from a saved desktop" if data.get("from_state") else what
            return Told("circle-check", "", f"set up in {seconds(data['seconds'])}, {what}")
        case "step":
            icon = ACTION_ICONS.get(data["action"], "mouse-pointer-2")
            return Told(icon, "", f"step {data['step']}: {data['action']}, {milliseconds(data['took_ms'])}")
        case "attempt_verifying":
            return Told("verifying", "live2", "being verified")
        case "attempt_verdict":
            hue = "ok" if data["outcome"] == "success" else "bad"
            return Told(data["outcome"], hue, f"checked: {data['outcome']}, reward {data['reward']:g}")
        case "try_failed":
            return Told(
                "rotate-cw", "warn", f"try {data['try_number']} broke: {reasons(data['reasons']).lower()}"
            )
        case "attempt_ended":
            return _ended(data)
        case unknown:
            return Told("info", "", f"{unknown}, of a newer version", False)


def cap_words(data: Mapping[str, Any]) -> str:
    """`Spend cap raised from $0.50 to $1.00, time cap lowered from 30 to 20 min`."""
    parts = []
    if data.get("spend_cap_usd"):
        now, was = data["spend_cap_usd"], data["spend_cap_was_usd"]
        way = "raised" if Decimal(now) > Decimal(was) else "lowered"
        parts.append(f"spend cap {way} from {dollars(Decimal(was))} to {dollars(Decimal(now))}")
    if data.get("time_cap_minutes"):
        now, was = data["time_cap_minutes"], data["time_cap_was_minutes"]
        parts.append(f"time cap {'raised' if now > was else 'lowered'} from {was:,} to {now:,} min")
    words = ", ".join(parts)
    return words[:1].upper() + words[1:]


def _by(actor: str) -> str:
    """What happens by itself needs nobody named."""
    return "" if actor == SUPERVISOR.label else f", by {actor}"


def _attempts(n: int) -> str:
    return "1 attempt" if n == 1 else f"{n:,} attempts"


def size_words(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _prefix_ended(data: Mapping[str, Any]) -> Told:
    tries = f" after {data['tries']} tries" if data["tries"] > 1 else ""
    if data["status"] == "saved":
        return Told("circle-check", "ok", f"done{tries}: its forks start from it")
    if data["status"] == "error":
        why = reasons(data["reasons"]).lower()
        return Told("error", "warn", f"not saved{tries}: {why}; each of its attempts plays it")
    return Told("cancelled", "", "cancelled")


def _forked(data: Mapping[str, Any]) -> Told:
    took = seconds(data["seconds"])
    if data["differences"]:
        return Told("invalid", "void", f"is no fork: {'; '.join(data['differences'])[:200]}")
    return Told("git-fork", "", f"forked from the saved desktop, compared in {took}")


def _ended(data: Mapping[str, Any]) -> Told:
    why = reasons(data["reasons"]).lower()
    tries = f" after {data['tries']} tries" if data["tries"] > 1 else ""
    if data["outcome"]:
        hue = "ok" if data["outcome"] == "success" else "bad"
        return Told(data["outcome"], hue, f"done: valid, {data['outcome']}{tries}")
    if data["verifier"] == "invalid":
        return Told("invalid", "void", f"invalid{tries}: {why}")
    if data["status"] == "error":
        return Told("error", "warn", f"error{tries}: {why}")
    return Told("cancelled", "", f"{data['status']}{tries}")


_STOP_WORDS: Final[dict[str, str]] = {value: str(label) for value, label in Run.StopReason.choices}


def feed_sentence(event: Event) -> Told:
    """The same for a list without a column for the attempt."""
    told = describe(event)
    if told.of_attempt and event.attempt_number is not None:
        return told._replace(sentence=f"Attempt {event.attempt_number:,} {told.sentence}")
    return told


def why_stopped(run: Run, by: str = "") -> str:
    """Why a run ended, as a sentence that says what that did to its attempts. `by`: who cancelled it, if known."""
    unplayed = (
        f"{run.cancelled:,} of {run.planned:,} attempts were not played to their end" if run.cancelled else ""
    )
    reason_sentences = {
        "all_tasks_done": f"All {run.planned:,} attempts have ended."
        if run.planned > 1
        else "The attempt has ended.",
        "verified_target_reached": f"Valid attempts: {run.valid:,}, and {run.spec['stop_after_valid']} were wanted.",
        "budget_exceeded": "The next seconds of a desktop would have passed the spend cap.",
        "time_cap_reached": f"The run had its {run.time_cap_minutes:,} min.",
        "workspace_budget_exceeded": "The workspace’s budget is spent.",
        "cancelled_by_user": f"{by or 'A person'} cancelled it.",
        "cancelled_by_operator": "The operator of this console cancelled it.",
        "worker_lost": "The worker was lost, and no other could go on.",
        "infrastructure_failure": "Our infrastructure failed; the attempts are not to blame.",
        "config_rejected": "It could not be started as it was asked for.",
    }
    first = reason_sentences.get(run.stop_reason, "")
    if run.reopened and run.stop_detail == RETRIED_ENDED and run.cancelled:
        first = (
            f"This is why it ended the first time: {first[:1].lower()}{first[1:]} It was reopened since to try attempts"
            " without a verdict again, and these have ended. The reason stays, as what it had left out was not played."
        )
    if not unplayed:
        return first
    return f"{first} {unplayed}; they count as cancelled, none as failed."


def what_next(run: Run, *, manages: bool) -> str:
    """What to do now, for each reason a run can stop for. One or two sentences; the page has the buttons."""
    missing = run.finished - run.valid
    them = "The one without a verdict" if missing == 1 else f"The {missing:,} without a verdict"
    again = (
        f" {them} can be tried again in this run." if missing and run.status != Run.Status.CANCELLED else ""
    )
    workspace_cap = (
        "Raise the cap on the Budget page, then rerun it."
        if manages
        else "An admin or owner can raise the cap on the Budget page; then rerun it."
    )
    words = {
        "all_tasks_done": ""
        if missing
        else "Nothing: every attempt has its verdict."
        if not (run.is_scripted and run.fail)
        else f"See what the checker found of {'the one' if run.fail == 1 else f'the {run.fail:,}'} that failed.",
        "verified_target_reached": "Nothing: it has what it was to have. Rerun it with a higher target for more.",
        "budget_exceeded": "Rerun it without that token."
        if run.stop_detail.startswith(CEILING)
        else "Rerun it with a higher spend cap, or with fewer attempts.",
        "time_cap_reached": "Rerun it with a longer time cap, or on more desktops at once.",
        "workspace_budget_exceeded": workspace_cap,
        "cancelled_by_user": "Rerun it when it is wanted after all.",
        "cancelled_by_operator": "Ask the operator of this console why, before you rerun it.",
        "worker_lost": f"See on the Workers page that one with {run.template_version} is connected, then rerun it.",
        "infrastructure_failure": "See under “Without a verdict” what broke, and mend the worker.",
        "config_rejected": "Rerun it, and choose a published template in the step Environment.",
    }
    return f"{words.get(run.stop_reason, '')}{again}".strip()


def recipe_noun(run: Run) -> str:
    """A recipe that is played once is a recipe; played several times, each is a replay."""
    noun = "recipe" if run.planned == len(run.task_ids) else "replay"
    return noun if run.planned == 1 else f"{noun}s"


def passed_of(run: Run) -> str:
    """Of how many with a verdict: a fault or a cancelled attempt is no failed recipe."""
    if not run.valid:
        return "passed, no verdict" if run.is_terminal else "passed, no verdict yet"
    return f"of {run.valid:,} {recipe_noun(run) if run.valid == run.planned else 'with a verdict'} passed"


def recipes(run: Run) -> str:
    """A scripted test's result: how many did their task, as the checker found.

    Never a rate: it proves the pipeline and says nothing of a model.
    """
    return f"{run.success:,} {passed_of(run)}"


def plan(run: Run) -> str:
    """`20 tasks × 2 copies × 6 rounds`."""
    parts = [
        (len(run.task_ids), "task"),
        (run.spec["parallel_copies"], "copy"),
        (run.spec["fork_copies"], "fork"),
    ]
    parts.append((run.spec["rounds"], "round"))
    named = [f"{n:,} {_many(word, n)}" for n, word in parts if n > 1 or word == "task"]
    return " × ".join(named)


def _many(word: str, n: int) -> str:
    if n == 1:
        return word
    return "copies" if word == "copy" else f"{word}s"


def aim(run: Run) -> str:
    """What stands under a run's status: how it will end, or why it did."""
    if run.stop_reason:
        return _STOP_WORDS.get(run.stop_reason, run.stop_reason)
    target = run.spec.get("stop_after_valid")
    return f"Target: {target:,} valid" if target else "Until every attempt ends"
