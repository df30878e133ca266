from __future__ import annotations

from typing import Any

import pytest

from console.pages.audit_words import details


@pytest.mark.parametrize(
    ("action", "detail", "told"),
    [
        (
            "budget.cap_changed",
            {"cap_usd": "25.000000", "was_usd": None},
            ["Spend cap: none before, $25.00 now"],
        ),
        (
            "run.cap_changed",
            {
                "spend_cap_usd": "1.00",
                "spend_cap_was_usd": "0.5",
                "time_cap_minutes": 20,
                "time_cap_was_minutes": 30,
            },
            ["Spend cap: $0.50 before, $1.00 now", "Time cap: 30 min before, 20 min now"],
        ),
        (
            "template.rate_changed",
            {"was": "0.12", "rate_usd_per_hour": "0.0625"},
            ["Price of a desktop hour: $0.12 before, $0.0625 now"],
        ),
        ("member.role_changed", {"role": "admin", "was": "member"}, ["Role: member before, admin now"]),
        ("run.cancelled", {"name": "a", "was": "running"}, ["Name: a", "Status before: running"]),
        (
            "workspace.changed",
            {"run_parallelism_was": 4, "run_parallelism": 8},
            ["Desktops that one run may hold: 4 before, 8 now"],
        ),
        (
            "token.issued",
            {"scopes": ["runs:read", "runs:write"], "expires": None, "spend_ceiling_usd": None},
            ["May: runs:read, runs:write", "Expires: never", "May spend at most: none"],
        ),
        ("account.run_mail", {"wanted": True}, ["Wanted: yes"]),
        ("later.made", {"some_thing": "x", "was": "y"}, ["Some thing: x", "Before: y"]),
    ],
)
def test_a_detail_is_words_with_now_and_before(action: str, detail: dict[str, Any], told: list[str]) -> None:
    assert details(action, detail) == told
