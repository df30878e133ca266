"""The table's arithmetic and formatting. No figure is asserted: a bench is no test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import __main__ as command
from bench.machine import Conditions, look
from bench.table import Figure, Missing, Peer, Samples, document, number, quantity, table

QUIET = Conditions(processors=2, memory_mib=4096, kernel="6.1", load=0.1, busy=0.03, stolen=0.0)


def figure(
    *ours: float, peer: tuple[float, ...] = (), goal: float | None = None, part: bool = False
) -> Figure:
    return Figure("work", "ms", Samples(ours), Peer("peer", Samples(peer)) if peer else None, goal, part)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0004, "0.0004"),
        (0.0123, "0.012"),
        (0.5, "0.50"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (123456.7, "123457"),
        (9.999, "10.00"),
    ],
)
def test_numbers_have_the_digits_that_matter(value: float, text: str) -> None:
    assert number(value) == text


def test_a_quantity_has_its_unit() -> None:
    assert quantity(1.5, "MiB") == "1.50 MiB"


def test_samples_show_median_extremes_and_count() -> None:
    assert Samples((3.0, 1.0, 8.0)).text("s") == "3.00 s (1.00–8.00) of 3"


def test_the_median_of_an_even_count_lies_between() -> None:
    assert Samples((1.0, 2.0, 4.0, 100.0)).median == 3.0


def test_one_measurement_shows_no_range() -> None:
    assert Samples((80.0,)).text("s") == "80.0 s"


def test_no_measurement_is_no_samples() -> None:
    with pytest.raises(ValueError, match="no measurement"):
        Samples(())


def test_the_ratio_says_how_many_times_smaller_ours_is() -> None:
    assert figure(10, 20, 30, peer=(100, 300, 200)).ratio == 10


def test_a_ratio_below_one_says_that_ours_is_larger() -> None:
    assert figure(4, peer=(1,)).ratio == 0.25


def test_there_is_no_ratio_without_a_peer_or_of_nothing() -> None:
    assert figure(4).ratio is None
    assert figure(0, peer=(1,)).ratio is None


@pytest.mark.parametrize(
    ("goal", "reached"), [(None, None), (20.0, True), (19.9, False)], ids=["none", "just", "missed"]
)
def test_a_goal_is_reached_by_the_median(goal: float | None, reached: bool | None) -> None:
    assert figure(1, 20, 500, goal=goal).reached is reached


def test_cells_are_the_whole_row() -> None:
    assert figure(10, peer=(100,), goal=15).cells() == (
        "work",
        "10.0 ms",
        "peer: 100 ms",
        "10.0×",
        "≤ 15.0 ms",
        "yes",
    )


def test_cells_without_peer_and_goal_say_so() -> None:
    assert figure(10, part=True).cells() == ("  · work", "10.0 ms", "–", "–", "–", "–")


def test_the_table_is_aligned_and_says_what_is_missing() -> None:
    lines = table([figure(10, peer=(100,), goal=5), Missing("memory", "no engine")]).splitlines()
    assert len(lines) == 4
    assert lines[0].index("peer or limit") == lines[2].index("peer: 100 ms")
    assert lines[2].endswith("no")
    assert lines[3].startswith("memory")
    assert lines[3].endswith("not measured: no engine")


def test_a_table_of_nothing_but_gaps_can_be_drawn() -> None:
    assert "not measured: why" in table([Missing("a figure with quite a long name", "why")])


def test_the_document_has_every_measurement_and_what_follows_from_them() -> None:
    rows = [figure(10, 20, 30, peer=(100,), goal=15), Missing("memory", "no engine")]
    read = json.loads(document(rows, {"before": QUIET.document()}))
    assert read["conditions"]["before"]["quiet"] is True
    first, second = read["figures"]
    assert first["ours"] == {"values": [10, 20, 30], "median": 20}
    assert (first["peer"]["samples"]["median"], first["ratio"], first["reached"]) == (100, 5, False)
    assert second == {"what": "memory", "why": "no engine"}


def test_a_busy_machine_is_called_busy() -> None:
    busy = Conditions(processors=2, memory_mib=4096, kernel="6.1", load=8, busy=0.9, stolen=0.05)
    assert "NOT quiet" in busy.sentence()
    assert "the host takes 5%" in busy.sentence()
    assert QUIET.sentence().endswith("quiet.")


def test_looking_at_the_machine_gives_shares() -> None:
    conditions = look(0.1)
    assert 0 <= conditions.busy <= 1
    assert 0 <= conditions.stolen <= 1
    assert conditions.processors >= 1


def test_without_an_engine_the_bench_says_so_and_ends_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DESKYARD_ENGINE", "nonsense://nowhere")
    file = tmp_path / "figures.json"
    assert command.main(["--only", "memory", "--json", str(file)]) == 0
    assert "not measured: no container engine answers" in capsys.readouterr().out
    assert [row["what"] for row in json.loads(file.read_text())["figures"]] == ["memory"]
