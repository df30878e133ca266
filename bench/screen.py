"""One action and the screen after it, as the worker gets it, against pyautogui over HTTP; both in one desktop."""

from __future__ import annotations

import json
import time
from pathlib import Path

from desktops.protocol.actions import Move
from desktops.worker.computer import Computer
from desktops.worker.guest_client import Guest

from .site import Site
from .table import Figure, Peer, Row, Samples

OURS_TIMES = 100
PEER_TIMES = 20
GOAL_MS = 15.0
PEER = Path(__file__).with_name("pyautogui_peer.py")
PLACE = "/home/user/pyautogui_peer.py"
DEFAULT_PAUSE = 0.1


def measure(site: Site) -> list[Row]:
    with Computer(site.engine, site.spec()) as computer:
        guest = computer.guest
        _ours(guest, 5)  # the first ones fill caches on both sides
        guest.write_file(PLACE, PEER.read_bytes())
        # Alternating: whatever else this machine does meets both alike.
        whole: list[float] = []
        grab: list[float] = []
        paused: list[float] = []
        bare: list[float] = []
        for _ in range(2):
            times, grabs = _ours(guest, OURS_TIMES // 2)
            whole += times
            grab += grabs
            paused += _peers(guest, PEER_TIMES // 2, DEFAULT_PAUSE)
            bare += _peers(guest, PEER_TIMES // 2, 0)
    ours = Samples(tuple(whole))
    return [
        Figure(
            "action + fresh 1920×1080 screenshot, at the worker",
            "ms",
            ours,
            Peer("pyautogui over HTTP", Samples(tuple(paused))),
            GOAL_MS,
        ),
        Figure(
            "the same, pyautogui told not to pause",
            "ms",
            ours,
            Peer("its PAUSE = 0", Samples(tuple(bare))),
            part=True,
        ),
        Figure("grab and encode, in the desktop", "ms", Samples(tuple(grab)), part=True),
    ]


def _ours(guest: Guest, times: int) -> tuple[list[float], list[float]]:
    """Milliseconds of the whole round trip, and of the grab within it. Not waiting for the screen to rest:
    that is the app's time."""
    whole, grab = [], []
    for step in range(times):
        action = Move(x=100 + 17 * step % 1700, y=100 + 11 * step % 800)
        began = time.perf_counter()
        look = guest.act(action, settle_ms=0, timeout_ms=0)
        whole.append((time.perf_counter() - began) * 1000)
        grab.append(look.grab_ms)
    return whole, grab


def _peers(guest: Guest, times: int, pause: float) -> list[float]:
    done = guest.run(["python3", PLACE, str(times), str(pause)], timeout=90)
    if done.returncode:
        raise OSError(f"the peer in the desktop broke: {done.stderr.strip()[-300:]}")
    return [float(value) for value in json.loads(done.stdout)]
