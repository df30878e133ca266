"""The rows of a made-up round: what each column holds, as SQL."""

from __future__ import annotations

from typing import Any, Final

from django.db import connection
from django.db.models import AutoField, Model

from console.models import LedgerEntry
from desktops.models import Assignment, Computer
from runs.models import Attempt, AttemptTry, Event, Step

# One row a try of a round's attempts, those that were never played with none. `h` decides how the attempt went,
# `t` spreads what is measured. Ids are drawn from names, so that no statement has to look another's up.
TRIES: Final = """
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
WITH attempt AS (
  SELECT n AS number, %(round)s::int AS round, (n - 1) %% %(a_round)s AS place,
    abs(hashint4(n)::bigint) %% 1000 AS h, abs(hashint4(n + 500000007)::bigint) %% 1000 AS t
  FROM generate_series(%(first)s::int, %(last)s::int) AS n
), judged AS (
  SELECT *, md5(%(run)s::text || 'a' || number)::uuid AS attempt_id,
    (%(tasks)s::bigint[])[1 + place / (%(copies)s * %(forks)s)] AS task_id,
    1 + place / %(forks)s %% %(copies)s AS copy, 1 + place %% %(forks)s AS fork,
    CASE WHEN number > %(played)s THEN 0 WHEN h < 920 THEN 1 WHEN h < 945 THEN 2 ELSE 3 END AS tries,
    h < 945 AND number <= %(played)s AS valid,
    h >= 945 AND h < 960 AND number <= %(played)s AS invalid,
    CASE WHEN h < 945 THEN 'desktop_lost' WHEN h < 960 THEN 'checker_error'
      ELSE (ARRAY['desktop_start_failed', 'desktop_lost', 'guest_unreachable', 'setup_failed', 'not_ready',
                  'worker_lost', 'upload_failed'])[1 + t %% 7] END AS reason,
    t < 150 + 700 * (place / (%(copies)s * %(forks)s)) / greatest(cardinality(%(tasks)s::bigint[]), 1) AS success,
    %(started)s::timestamptz + %(lasted)s::interval * (number::float8 / %(planned)s) AS began
  FROM attempt
)
SELECT judged.*, one AS try, valid AND one = tries AS ok, md5(%(run)s::text || 'g' || number || '.' || one)::uuid
    AS assignment_id, md5(%(run)s::text || 'c' || number || '.' || one)::uuid AS computer_id,
  (%(workers)s::uuid[])[1 + (number + one) %% 8] AS worker_id,
  %(computer)s::int + (row_number() OVER (ORDER BY number, one))::int AS computer_number,
  began + make_interval(secs => 40 * (one - 1)) AS try_began, (4 + t %% 32)::float8 AS seconds,
  floor(%(steps)s::float8 + abs(hashint4(number + 90000001)::bigint) %% 1000 / 1000.0)::int AS steps
FROM judged LEFT JOIN LATERAL generate_series(1, tries) AS one ON true
"""

COMPUTER: Final = "'c-' || lpad(computer_number::text, 4, '0')"
WORKER: Final = "'made-up-' || 1 + (number + try) %% 8"
COST: Final = "ceil(seconds * %(rate)s / 3600 * 1000000) / 1000000"
ENDED: Final = "CASE WHEN valid OR invalid THEN 'done' ELSE 'error' END"
VERIFIER: Final = "CASE WHEN valid THEN 'valid' WHEN invalid THEN 'invalid' ELSE 'not_checked' END"
TRY_ENDED: Final = "try_began + make_interval(secs => seconds + 1)"
VERDICT: Final = """jsonb_build_object('kind', 'verdict', 'reward', success::int, 'evidence', '[]'::jsonb,
    'checker', 'osworld@v1', 'checker_digest', 'sha256:0', 'seconds', 0.2, 'screenshot', '')"""
# What kind a line of the log is of decides what it holds.
TOLD: Final = f"""CASE kind
    WHEN 'attempt_offered' THEN jsonb_build_object('try_number', try, 'worker', {WORKER})
    WHEN 'computer_started' THEN jsonb_build_object('computer', {COMPUTER}, 'worker', {WORKER})
    WHEN 'computer_ready' THEN jsonb_build_object('computer', {COMPUTER}, 'seconds', 0.4)
    WHEN 'setup_done' THEN '{{"seconds": 0.2, "steps": 0}}'
    WHEN 'step' THEN jsonb_build_object('step', step, 'action', 'click', 'took_ms', 452 + t, 'screenshot', '')
    WHEN 'attempt_verdict' THEN jsonb_build_object('reward', success::int, 'outcome',
      CASE WHEN success THEN 'success' ELSE 'fail' END)
    WHEN 'computer_stopped' THEN jsonb_build_object('computer', {COMPUTER}, 'reason', 'the attempt ended',
      'seconds', seconds, 'cost_usd', ({COST})::text)
    WHEN 'try_failed' THEN jsonb_build_object('try_number', try, 'reasons', ARRAY[reason], 'detail', 'Made up.')
    WHEN 'attempt_ended' THEN jsonb_build_object('status', {ENDED}, 'verifier', {VERIFIER}, 'outcome',
      CASE WHEN valid AND success THEN 'success' WHEN valid THEN 'fail' END,
      'reasons', CASE WHEN valid THEN '{{}}' ELSE ARRAY[reason] END, 'tries', tries)
    ELSE '{{}}' END"""
LINES: Final = """made, LATERAL (
  VALUES (1, 'attempt_offered', true, 0), (2, 'computer_started', true, 0), (3, 'computer_ready', ok, 0),
    (4, 'setup_done', ok, 0), (6, 'attempt_verifying', ok, 0), (7, 'attempt_verdict', ok, 0),
    (8, 'computer_stopped', true, 0), (9, 'attempt_ended', try = tries, 0), (9, 'try_failed', try < tries, 0)
  UNION ALL SELECT 5, 'step', ok, taken FROM generate_series(1, steps) AS taken
) AS told (line, kind, so, step) WHERE tries > 0 AND so"""

# Model, what its columns hold (left out: their default), and of what.
ROWS: Final[tuple[tuple[type[Model], dict[str, str], str], ...]] = (
    (
        Attempt,
        {
            "id": "attempt_id",
            "workspace_id": "%(workspace)s",
            "run_id": "%(run)s",
            "number": "number",
            "task_id": "task_id",
            "round": "round",
            "copy": "copy",
            "fork": "fork",
            "fork_method": "%(fork_method)s",
            "status": f"CASE WHEN tries = 0 THEN 'cancelled' ELSE {ENDED} END",
            "verifier": VERIFIER,
            "reward": "CASE WHEN valid THEN success::int END",
            "invalid_reasons": "CASE WHEN valid OR tries = 0 THEN '{}' ELSE ARRAY[reason] END",
            "checker_error": "CASE WHEN invalid THEN 'The checker could not read the desktop.' ELSE '' END",
            "steps": "CASE WHEN valid THEN steps ELSE 0 END",
            "tries": "tries",
            "computer_id": "CASE WHEN tries > 0 THEN computer_id END",
            "worker_id": "CASE WHEN tries > 0 THEN worker_id END",
            "started_at": "CASE WHEN tries > 0 THEN began END",
            "ended_at": f"CASE WHEN tries > 0 THEN {TRY_ENDED} END",
        },
        "made WHERE try = tries OR tries = 0",
    ),
    (
        Assignment,
        {
            "id": "assignment_id",
            "workspace_id": "%(workspace)s",
            "worker_id": "worker_id",
            "budget_id": "%(budget)s",
            "kind": "'attempt'",
            "subject": "attempt_id",
            "payload": "'{}'",
            "epoch": "try",
            "status": "'ended'",
            "lease_until": "try_began + interval '15 s'",
            "paid_until": "try_began + interval '60 s'",
            "rate_usd_per_hour": "%(rate)s",
            "offered_at": "try_began",
            "ended_at": TRY_ENDED,
        },
        "made WHERE tries > 0",
    ),
    (
        Computer,
        {
            "id": "computer_id",
            "workspace_id": "%(workspace)s",
            "number": "computer_number",
            "worker_id": "worker_id",
            "assignment_id": "assignment_id",
            "template_version_id": "%(version)s",
            "purpose": "'attempt'",
            "group": "%(run)s",
            "engine": "'podman'",
            "engine_ref": "left(computer_id::text, 12)",
            "image_id": "'sha256:' || repeat('0', 64)",
            "started_at": "try_began",
            "ready_at": "CASE WHEN ok THEN try_began + interval '0.4 s' END",
            "ready_seconds": "CASE WHEN ok THEN 0.3 + t / 5000.0 END",
            "stopped_at": "try_began + make_interval(secs => seconds)",
            "stop_reason": "'the attempt ended'",
        },
        "made WHERE tries > 0",
    ),
    (
        LedgerEntry,
        {
            "workspace_id": "%(workspace)s",
            "budget_id": "%(budget)s",
            "subject": "computer_id",
            "rate_usd_per_hour": "%(rate)s",
            "opened_at": "try_began",
            "settled_at": "try_began + make_interval(secs => seconds)",
            "seconds": "seconds",
            "cost": COST,
        },
        "made WHERE tries > 0",
    ),
    (
        AttemptTry,
        {
            "attempt_id": "attempt_id",
            "number": "try",
            "assignment_id": "assignment_id",
            "computer_id": "computer_id",
            "started_at": "try_began",
            "setup_seconds": "CASE WHEN ok THEN 0.2 END",
            "ended_at": TRY_ENDED,
            "ok": "ok",
            "invalid_reasons": "CASE WHEN ok THEN '{}' ELSE ARRAY[reason] END",
            "detail": "CASE WHEN ok THEN '' ELSE 'Made up.' END",
            "reward": "CASE WHEN ok THEN success::int END",
            "verdict": f"CASE WHEN ok THEN {VERDICT} END",
        },
        "made WHERE tries > 0 ORDER BY made.number, try",
    ),
    (
        Step,
        {
            "attempt_try_id": "one.id",
            "number": "step",
            "at": "try_began + make_interval(secs => 1 + step)",
            "action": """'{"action": "click", "x": 960, "y": 540}'""",
            "policy_ms": "400 + t",
            "act_ms": "3",
            "settle_ms": "40 + t / 10.0",
            "grab_ms": "9",
            "settled": "true",
            "screenshot": "''",
            "active_window": "'Terminal'",
        },
        "made JOIN runs_attempttry one ON (one.attempt_id, one.number) = (made.attempt_id, made.try), "
        "generate_series(1, made.steps) AS step WHERE made.ok",
    ),
    (
        Event,
        {
            "run_id": "%(run)s",
            "seq": "%(seq)s + row_number() OVER (ORDER BY number, try, line, step)",
            "at": "try_began + make_interval(secs => line)",
            "kind": "kind",
            "attempt_number": "number",
            "data": TOLD,
        },
        LINES,
    ),
)


def insert(model: type[Model], columns: dict[str, str], source: str) -> tuple[str, dict[str, Any]]:
    """The statement, and the defaults of the model's other columns."""
    defaults = {
        field.column: field.get_db_prep_save(field.get_default(), connection)
        for field in model._meta.local_concrete_fields
        if field.column not in columns and not field.generated and not isinstance(field, AutoField)
    }
    values = columns | {name: f"%(default_{name})s" for name in defaults}
    names = ", ".join(f'"{name}"' for name in values)
    return (
        f"INSERT INTO {model._meta.db_table} ({names}) SELECT {', '.join(values.values())} FROM {source}",  # noqa: S608
        {f"default_{name}": value for name, value in defaults.items()},
    )
