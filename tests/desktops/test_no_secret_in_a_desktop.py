"""What a worker is entrusted with stays with it: a desktop's processes, files and commands know nothing of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pytest

from desktops.worker.computer import Computer
from desktops.worker.engine.base import DeskSpec, Engine

pytestmark = pytest.mark.desktop
CANARY = "canary" + uuid.uuid4().hex
# Everything that a process in the desktop can read about processes, and where their files lie.
LOOK = """
cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'
env
cat /proc/self/mountinfo
grep -rhaso 'canary[0-9a-f]*' /home /tmp /run /var/tmp /etc /opt 2>/dev/null
"""


@pytest.fixture
def entrusted() -> Iterator[None]:
    """The worker's own environment, as its process has it."""
    given = {
        "DESKYARD_WORKER_TOKEN": f"dy_{CANARY}",
        "DATABASE_URL": f"postgresql://u:{CANARY}@h/d",
        "OPENAI_API_KEY": CANARY,
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def test_a_desktop_sees_nothing_of_its_workers_environment(
    engine: Engine, image: Callable[[str], str], entrusted: None
) -> None:
    with Computer(engine, DeskSpec(computer=str(uuid.uuid4()), image=image("basic"))) as computer:
        seen = computer.guest.run(["sh", "-c", LOOK], timeout=60).stdout
        launched = computer.guest.run(["bash", "-lc", "env"], timeout=30).stdout
    assert "DISPLAY" in seen
    assert "DISPLAY" in launched
    for text in (seen, launched):
        assert CANARY not in text
        assert "DESKYARD_WORKER" not in text
        assert "DATABASE_URL" not in text
