"""The picture of one task in one round: copies, the shared prefix, the fork, the attempts."""

from __future__ import annotations

from dataclasses import dataclass, field

from .draft import Draft

HEIGHT, TOP = 150.0, 10.0
FORK_X, END_X = 330, 426


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    r: float


@dataclass
class Sketch:
    """Lines as path data; coordinates are those of the picture's viewBox, 700 × 190."""

    copies: int
    forks: int
    prefix: int
    bad: bool
    lines: list[str] = field(default_factory=list)
    prefix_dots: list[Dot] = field(default_factory=list)
    ends: list[Dot] = field(default_factory=list)
    saves: list[float] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        return self.copies * self.forks


def sketch(draft: Draft) -> Sketch:
    copies, forks = draft.number("parallel_copies"), draft.number("fork_copies")
    prefix = draft.number("prefix_steps")
    picture = Sketch(copies, forks, prefix, bad=forks > 1 and prefix < 1)
    rows = copies * forks
    for copy in range(copies):
        middle = TOP + (copy + 0.5) * HEIGHT / copies
        picture.lines.append(f"M92 85L150 {middle:.2f}L{FORK_X if forks > 1 else 420} {middle:.2f}")
        gap = min(24.0, 140.0 / prefix) if prefix else 0.0
        picture.prefix_dots += [Dot(168 + step * gap, middle, 3) for step in range(prefix)]
        for fork in range(forks):
            y = TOP + (copy * forks + fork + 0.5) * HEIGHT / rows
            if forks > 1:
                picture.lines.append(f"M{FORK_X} {middle:.2f}L370 {y:.2f}L420 {y:.2f}")
            picture.ends.append(Dot(END_X, y, min(5.0, HEIGHT / rows / 2.4)))
        if forks > 1:
            picture.saves.append(middle - 6)
    return picture
