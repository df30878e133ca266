"""A worker's part that works with an engine until it is killed: `python -m tests.desktops.engine.doomed …`.

Prints its desktop's computer once that is ready, and then, as it is told, holds it, saves it over and over, or starts
others from the saved one over and over.
"""

from __future__ import annotations

import sys
import time
import uuid
from pathlib import Path

from desktops.worker.computer import Computer
from desktops.worker.engine.base import DeskSpec, SavingEngine
from desktops.worker.engine.choose import open_engine

FIRST, AGAIN = "saved-first", "saved-again"


def main(address: str, home: str, image: str, work: str) -> None:
    engine = open_engine(address, Path(home))
    assert isinstance(engine, SavingEngine)
    computer = Computer(engine, DeskSpec(computer=str(uuid.uuid4()), image=image)).start()
    if work != "hold":
        computer.save(FIRST, resume=True)
    print(computer.id, flush=True)
    while True:
        if work == "save":
            computer.save(AGAIN, resume=True)
        elif work == "restore":
            engine.remove(engine.create(DeskSpec(computer=str(uuid.uuid4()), image=image, state=FIRST)))
        else:
            time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
