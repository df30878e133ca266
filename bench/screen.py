"""One action and the screen after it, as the worker gets it, against pyautogui over HTTP; both in one desktop."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from desktops.protocol.actions import Move
from desktops.worker.computer import Computer
from desktops.worker.guest_client import Guest

from .site import Site
from .table import Figure, Peer, Row, Samples

OURS_TIMES = 100
PEER_TIMES = 20
ROUNDS = 2
GOAL_MS = 15.0
PEER = Path(__file__).with_name("pyautogui_peer.py")
PLACE = "/home/user/pyautogui_peer.py"
DEFAULT_PAUSE = 0.1


@dataclass
class _Times:
    """Milliseconds: of each whole round trip, of the grab within each, and of processor time, a mean a round."""

    whole: list[float] = field(default_factory=list)
    grab: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def measure(site: Site) -> list[Row]:
    ours, paused, bare = _Times(), _Times(), _Times()
    with Computer(site.engine, site.spec()) as computer:
        guest = computer.guest
        _ours(guest, 5, _Times())  # the first ones fill caches
        guest.write_file(PLACE, PEER.read_bytes())
        # In turns: whatever else this machine does meets all of them alike.
        for _ in range(ROUNDS):
            _ours(guest, OURS_TIMES // ROUNDS, ours)
            _peers(guest, PEER_TIMES // ROUNDS, DEFAULT_PAUSE, paused)
            _peers(guest, PEER_TIMES // ROUNDS, 0, bare)
    whole = _samples(ours.whole)
    pyautogui = Peer("pyautogui over HTTP", _samples(paused.whole))
    hurried = Peer("its PAUSE = 0", _samples(bare.whole))
    server = Peer("its server", _samples(bare.processor))
    return [
        Figure("action + fresh 1920×1080 screenshot, at the worker", "ms", whole, pyautogui, GOAL_MS),
        Figure("the same, pyautogui told not to pause", "ms", whole, hurried, part=True),
        Figure("grab and encode, in the desktop", "ms", _samples(ours.grab), part=True),
        Figure("processor time, agent only", "ms", _samples(ours.processor), server, part=True),
    ]


def _samples(values: list[float]) -> Samples:
    return Samples(tuple(values))


def _ours(guest: Guest, times: int, found: _Times) -> None:
    """Without waiting for the screen to rest: that is the app's time."""
    used = _agent_ms(guest)
    for step in range(times):
        action = Move(x=100 + 17 * step % 1700, y=100 + 11 * step % 800)
        began = time.perf_counter()
        look = guest.act(action, settle_ms=0, timeout_ms=0)
        found.whole.append((time.perf_counter() - began) * 1000)
        found.grab.append(look.grab_ms)
    found.processor.append((_agent_ms(guest) - used) / times)


def _agent_ms(guest: Guest) -> float:
    """Processor time the agent has used so far; what it runs is its child."""
    done = guest.run(["sh", "-c", "cat /proc/$PPID/stat; getconf CLK_TCK"])
    stat, ticks = done.stdout.rpartition(")")[2].strip().split("\n")
    return sum(int(value) for value in stat.split()[11:13]) * 1000 / int(ticks)


def _peers(guest: Guest, times: int, pause: float, found: _Times) -> None:
    done = guest.run(["python3", PLACE, str(times), str(pause)], timeout=90)
    if done.returncode:
        raise OSError(f"the peer in the desktop broke: {done.stderr.strip()[-300:]}")
    whole, processor = json.loads(done.stdout)
    found.whole += whole
    found.processor.append(processor)
