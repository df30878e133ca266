"""Who may do what at every address of the console. An address that is missing here fails the tests.

Pages by the name of their address, GET and POST apart; the API by scope; sockets by route. To add a page, add a line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

# Of the workspace `lab`; the creator is the member who started its run; the outsider owns another workspace.
ANONYMOUS, OUTSIDER, MEMBER, CREATOR, ADMIN, OWNER = (
    "anonymous",
    "outsider",
    "member",
    "creator",
    "admin",
    "owner",
)
PERSONAS: Final = (ANONYMOUS, OUTSIDER, MEMBER, CREATOR, ADMIN, OWNER)

EVERYBODY: Final = frozenset(PERSONAS)
SIGNED_IN: Final = EVERYBODY - {ANONYMOUS}
MEMBERS: Final = SIGNED_IN - {OUTSIDER}
CREATORS: Final = frozenset({CREATOR, ADMIN, OWNER})  # of a run: who started it, admins and owners
MANAGERS: Final = frozenset({ADMIN, OWNER})
NOBODY: Final[frozenset[str]] = frozenset()  # no such method: 405


@dataclass(frozen=True)
class Page:
    """`form` is what every persona posts; `may_be_empty`: a 404 for whoever has none of what it shows."""

    get: frozenset[str]
    post: frozenset[str] = NOBODY
    form: dict[str, Any] = field(default_factory=dict)
    may_be_empty: bool = False


def sees(who: frozenset[str]) -> Page:
    return Page(get=who)


def does(who: frozenset[str], **form: Any) -> Page:
    return Page(get=NOBODY, post=who, form=form)


PAGES: Final[dict[str, Page]] = {
    # doors
    "home": sees(SIGNED_IN),
    "theme": does(EVERYBODY),
    "icons": sees(EVERYBODY),
    "invitation": Page(EVERYBODY, EVERYBODY, {"name": "Nora", "password": "seven green bottles"}),
    "workspace-new": Page(NOBODY, NOBODY),  # the operator's, unless a setting opens it
    # accounts
    "account_login": Page(EVERYBODY, EVERYBODY, {"login": "x@example.test", "password": "x"}),
    "account_logout": Page(EVERYBODY, EVERYBODY),
    "account_inactive": sees(EVERYBODY),
    "account_signup": Page(EVERYBODY, EVERYBODY),  # says that people are invited
    "account_reauthenticate": Page(SIGNED_IN, SIGNED_IN),
    "account_email": sees(SIGNED_IN),
    "account_run_mail": does(SIGNED_IN),
    "account_change_password": Page(SIGNED_IN, SIGNED_IN),
    "account_set_password": Page(SIGNED_IN, SIGNED_IN),
    "account_reset_password": Page(EVERYBODY, EVERYBODY, {"email": "x@example.test"}),
    "account_reset_password_done": sees(EVERYBODY),
    "account_reset_password_from_key_done": sees(EVERYBODY),
    "account_reset_password_from_key": Page(EVERYBODY, EVERYBODY),
    "mfa_index": sees(SIGNED_IN),
    "mfa_authenticate": Page(EVERYBODY, EVERYBODY),  # sends on whoever is not half signed in
    "mfa_reauthenticate": Page(SIGNED_IN, SIGNED_IN),
    "mfa_activate_totp": Page(SIGNED_IN, SIGNED_IN),
    "mfa_deactivate_totp": Page(SIGNED_IN, SIGNED_IN, may_be_empty=True),
    "mfa_view_recovery_codes": Page(SIGNED_IN, may_be_empty=True),
    "mfa_generate_recovery_codes": Page(SIGNED_IN, SIGNED_IN),
    "mfa_download_recovery_codes": Page(SIGNED_IN, may_be_empty=True),
    "usersessions_list": Page(SIGNED_IN, SIGNED_IN),
    # the workspace
    "workspace-home": sees(MEMBERS),
    "jump": sees(MEMBERS),
    "blob": sees(MEMBERS),
    "settings": Page(MANAGERS, MANAGERS, {"name": "New", "run_parallelism": "4"}),
    "member-list": Page(MEMBERS, MANAGERS, {"email": "new@example.test", "role": "member"}),
    "member-role": does(MANAGERS, role="admin"),
    "member-remove": does(MEMBERS),  # whom, the verb decides: a member only themselves
    "member-invitation-renew": does(MANAGERS),
    "member-invitation-revoke": does(MANAGERS),
    "token-list": Page(MEMBERS, MEMBERS, {"name": "new", "scopes": ["runs:read"], "expires": "30"}),
    "token-revoke": does(CREATORS),  # the creator's own
    "audit-log": sees(MANAGERS),
    "audit-download": sees(MANAGERS),
    "budget": sees(MEMBERS),
    "budget-cap": does(MANAGERS, cap="100"),
    "webhook-list": Page(MANAGERS, MANAGERS, {"url": "https://example.test/new", "events": ["run.failed"]}),
    "webhook": sees(MANAGERS),
    "webhook-test": does(MANAGERS),
    "webhook-switch": does(MANAGERS),
    "webhook-remove": does(MANAGERS),
    "webhook-again": does(MANAGERS),
    # material
    "template-list": sees(MEMBERS),
    "template": sees(MEMBERS),
    "template-publish": Page(MANAGERS, MANAGERS),
    "template-discard": Page(MANAGERS, MANAGERS),
    "computer-list": sees(MEMBERS),
    "computer-new": Page(MEMBERS, MEMBERS, {"start": "template:basic@1"}),
    "computer": sees(MEMBERS),
    "computer-view": does(MEMBERS),
    "computer-drive": does(CREATORS),
    "computer-close": Page(CREATORS, CREATORS),
    "computer-save": Page(CREATORS, CREATORS),
    "computer-template": Page(CREATORS, CREATORS, {"name": "mine"}),
    "worker-list": sees(MEMBERS),
    "worker": sees(MEMBERS),
    "worker-pause": does(MANAGERS),
    "worker-resume": does(MANAGERS),
    "worker-remove": Page(MANAGERS, MANAGERS),
    "state-list": sees(MEMBERS),
    "state": sees(MEMBERS),
    "state-keep": does(MEMBERS, keep_days="200"),
    "state-delete": Page(MANAGERS, MANAGERS),
    "task-set-list": sees(MEMBERS),
    "task-set": sees(MEMBERS),
    "task": sees(MEMBERS),
    # runs
    "run-list": sees(MEMBERS),
    "run-new": Page(MEMBERS, MEMBERS),
    "run-new-discard": does(MEMBERS),
    "run-new-step": Page(MEMBERS, MEMBERS),
    "run-new-preview": sees(MEMBERS),
    "run-rerun": Page(MEMBERS, MEMBERS),
    "run": sees(MEMBERS),
    "run-rollouts": sees(MEMBERS),
    "run-attempts-file": sees(MEMBERS),
    "run-computers": sees(MEMBERS),
    "run-computer": sees(MEMBERS),
    "run-computer-view": does(MEMBERS),
    "run-computer-take-over": does(CREATORS),
    "run-forks": sees(MEMBERS),
    "run-metrics": sees(MEMBERS),
    "run-events": sees(MEMBERS),
    "run-events-download": sees(MEMBERS),
    "run-configuration": sees(MEMBERS),
    "run-provenance-page": sees(MEMBERS),
    "run-cancel": Page(CREATORS, CREATORS),
    "run-caps": Page(CREATORS, CREATORS, {"spend_cap_usd": "0.75", "time_cap_minutes": "45"}),
    "run-retry": Page(CREATORS, CREATORS),
    "attempt": sees(MEMBERS),
    "attempt-card": sees(MEMBERS),
}

# Which scope a method wants; None: public. What has no scope here has no such method.
API: Final[dict[str, dict[str, str | None]]] = {
    "schema": {"GET": None},
    "api-docs": {"GET": None},
    "api-keys": {"GET": None},
    "api-verifier": {"GET": None},
    "api-budget": {"GET": "runs:read"},
    "api-blob": {"GET": "runs:read"},
    "api-worker-blob": {"PUT": "workers:connect", "HEAD": "workers:connect"},
    "api-templates": {"GET": "runs:read"},
    "api-workers": {"GET": "runs:read"},
    "api-states": {"GET": "computers:read"},
    "api-state": {"GET": "computers:read", "PATCH": "computers:write", "DELETE": "computers:write"},
    "api-computers": {"GET": "computers:read", "POST": "computers:write"},
    "api-computer": {"GET": "computers:read", "DELETE": "computers:write"},
    "api-computer-view": {"POST": "computers:read"},
    "api-computer-states": {"POST": "computers:write"},
    "api-computer-template": {"POST": "computers:write"},
    "api-task-sets": {"GET": "runs:read"},
    "api-tasks": {"GET": "runs:read"},
    "api-evaluations": {"GET": "evaluations:read", "POST": "evaluations:write"},
    "api-evaluation": {"GET": "evaluations:read"},
    "api-evaluation-rollouts": {"GET": "evaluations:read", "POST": "evaluations:write"},
    "api-evaluation-seal": {"POST": "evaluations:write"},
    "api-evaluation-report": {"GET": "evaluations:read"},
    "api-runs": {"GET": "runs:read", "POST": "runs:write"},
    "api-run": {"GET": "runs:read", "PATCH": "runs:write"},
    "api-run-cancel": {"POST": "runs:write"},
    "api-run-rerun": {"POST": "runs:write"},
    "api-run-retry": {"POST": "runs:write"},
    "api-run-attempts": {"GET": "runs:read"},
    "api-run-events": {"GET": "runs:read"},
    "api-run-prefixes": {"GET": "runs:read"},
    "api-prefix-steps": {"GET": "runs:read"},
    "api-run-attempts-file": {"GET": "runs:read"},
    "api-run-events-file": {"GET": "runs:read"},
    "api-run-provenance": {"GET": "runs:read"},
    "api-attempt": {"GET": "runs:read"},
    "api-attempt-steps": {"GET": "runs:read"},
    "api-step-screenshot": {"GET": "runs:read"},
}
# What is sent with a call that wants more than an empty object.
BODIES: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("api-run", "PATCH"): {"spend_cap_usd": "0.75"},
    ("api-computer-template", "POST"): {"name": "mine"},
    ("api-state", "PATCH"): {"keep_days": 200},
}
# Verbs that also ask who the token's person is.
API_FOR: Final = {
    ("api-run", "PATCH"): CREATORS,
    ("api-run-cancel", "POST"): CREATORS,
    ("api-run-retry", "POST"): CREATORS,
    ("api-state", "DELETE"): MANAGERS,
    ("api-computer", "DELETE"): CREATORS,
    ("api-computer-states", "POST"): CREATORS,
    ("api-computer-template", "POST"): CREATORS,
}

# Those of a route that may listen: people by cookie, or "token" with workers:connect.
SOCKETS: Final[dict[str, frozenset[str]]] = {
    "ws/worker": frozenset({"token"}),
    "ws/worker/tunnel/<uuid:view>": frozenset({"token"}),
    "ws/watch/<str:ticket>": frozenset({"token"}),  # with computers:read, and a ticket of its person's
    "ws/live/<str:ticket>": MEMBERS,  # by a ticket of their own
    "ws/w/<slug:workspace>/runs/<int:number>": MEMBERS,
}
