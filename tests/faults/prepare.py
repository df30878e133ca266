"""Fill the rig's database: tables, people, and labs. Runs in a process of its own, where Django knows that database.

`python -m tests.faults.prepare LABS DIGESTS` prints the labs as JSON; DIGESTS are those of the templates' images, by
name, as JSON. Each lab is a workspace that no other scenario touches, with the same people in it, a token for each of
them, one for workers, the tasks and the published templates.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import django

PEOPLE = ("owner", "admin", "member")
TASK_SET = "courses"


def main(labs: int, digests: dict[str, str]) -> None:
    django.setup()
    from django.core.management import call_command

    from console.models import User
    from tests.factories import PASSWORD

    call_command("migrate", interactive=False, verbosity=0)
    people = {name: User.objects.create_user(f"{name}@example.test", PASSWORD, name=name) for name in PEOPLE}
    User.objects.create_superuser("operator@example.test", PASSWORD, name="operator")
    made = [_lab(f"lab-{number}", people, digests) for number in range(1, labs + 1)]
    print(json.dumps(made))


def _lab(slug: str, people: dict[str, Any], digests: dict[str, str]) -> dict[str, Any]:
    from console.actions.tokens import issue_token
    from console.actions.workspaces import add_member, create_workspace
    from console.actor import Actor
    from tests.factories import TaskFactory, TaskSetFactory, TemplateVersionFactory

    from .tasks import TASKS, document

    actor = Actor.person(people["owner"])
    workspace = create_workspace(slug=slug, name=slug, owner=people["owner"])
    for name in ("admin", "member"):
        add_member(workspace, user=people[name], role=name, actor=actor)

    def token(name: str, whose: str, *scopes: str) -> str:
        _, secret = issue_token(
            workspace=workspace,
            user=people[whose],
            name=name,
            scopes=scopes,
            expires_in=None,
            actor=Actor.person(people[whose]),
        )
        return secret

    for name, digest in digests.items():
        TemplateVersionFactory(workspace=workspace, name=name, digest=digest)
    tasks = TaskSetFactory(workspace=workspace, name=TASK_SET, tasks=0)
    for place, (name, (_, _, recipe)) in enumerate(TASKS.items(), 1):
        TaskFactory(task_set=tasks, position=place, task_id=name, document=document(name), recipe=recipe)
    return {
        "slug": slug,
        "tokens": {name: token(f"{name}'s", name, "runs:read", "runs:write") for name in PEOPLE},
        "worker_token": token("workers", "owner", "workers:connect"),
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
