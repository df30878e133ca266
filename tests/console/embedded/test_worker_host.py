"""`make worker` says in its terminal how things stand with the console."""

from __future__ import annotations

from pathlib import Path

from console.embedded.worker_host import News

AT = "2026-01-01 10:00:00,000"


def test_the_terminal_tells_what_the_log_says_of_the_console_and_nothing_twice_in_a_row(
    tmp_path: Path,
) -> None:
    log = tmp_path / "worker.log"
    log.write_text(f"{AT} INFO connected to ws://before\n")
    news = News(log)
    assert news.more() == []
    with log.open("a") as file:
        file.write(f"{AT} INFO a desktop is saved\n{AT} INFO connected to ws://here as worker 1\n")
        file.write(f"{AT} ERROR the console turns this worker away: another has its name\n" * 2)
        file.write(f"{AT} WARNING no connection to the cons")
    assert news.more() == [
        "connected to ws://here as worker 1",
        "the console turns this worker away: another has its name",
    ]
    assert news.more() == []
    with log.open("a") as file:
        file.write("ole at http://here: refused\n")
    assert news.more() == ["no connection to the console at http://here: refused"]
