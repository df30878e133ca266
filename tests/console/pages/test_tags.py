from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from console.pages import figures
from console.templatetags import deskyard as tags


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (Decimal(0), "$0.0000"),
        (Decimal("0.01"), "$0.0100"),
        (Decimal("0.01374"), "$0.0137"),
        (Decimal("1.95405"), "$1.9541"),
        (Decimal("1234.5"), "$1,234.5000"),
        (Decimal("0.00001"), "< $0.0001"),
        (Decimal("-3"), "−$3.0000"),
    ],
)
def test_what_was_used_has_four_places_and_is_never_nothing_for_something(value, text):
    assert tags.money(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (Decimal(0), "$0.00"),
        (Decimal("0.500000"), "$0.50"),
        (Decimal("0.062500"), "$0.0625"),
        (Decimal("1E+4"), "$10,000.00"),
    ],
)
def test_what_somebody_set_is_written_as_it_was_set(value, text):
    assert tags.dollars(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (0, "0:00"),
        (124.9, "2:04"),
        (3920, "1:05:20"),
        (timedelta(days=3, hours=4), "3 d 04:00:00"),
    ],
)
def test_durations_are_to_the_second(value, text):
    assert tags.duration(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (14_200, "14.2 kB"), (3 * 10**12, "3000.0 GB")])
def test_sizes_have_a_unit(value, text):
    assert tags.size(value) == text


def test_a_digest_is_shortened_with_its_prefix():
    assert tags.short_digest("sha256:" + "9a02fe" + "0" * 54 + "be71") == "sha256:9a02fe…be71"


@pytest.mark.parametrize("value", [value for value in tags.LOOKS if value])
def test_a_status_is_always_icon_and_word(value):
    for drawn in (tags.status(value), tags.badge(value)):
        assert "<svg" in drawn
        assert tags.LOOKS[value].word in drawn


def test_no_outcome_is_read_aloud_as_such():
    assert "No outcome" in tags.status(None)


def test_what_a_person_wrote_is_escaped():
    assert "<b>" not in tags.status("valid", "<b>")


def test_a_time_says_its_date_in_full_in_its_title():
    drawn = tags.when(datetime(2021, 3, 16, 17, 2, tzinfo=UTC))
    assert "16 Mar 2021 17:02" in drawn
    assert 'title="16 March 2021, 17:02:00 UTC"' in drawn


def test_parts_of_a_bar_never_pass_its_end():
    parts = figures.segments(10, {"f_ok": 8, "hatch_void": 5, "f_fail": 5})
    assert [part.width for part in parts] == ["80.00%", "20.00%"]
    assert parts[1].fill == "url(#hatch-void)"


class FakeTask:
    """What the filter reads of a task."""

    def __init__(self, task_id: str, title: str, instruction: str) -> None:
        self.task_id, self.title, self.instruction = task_id, title, instruction


@pytest.mark.parametrize(
    ("task_id", "title", "name"),
    [
        ("rename-folder", "In my Documents there…", "Rename folder"),
        ("rename-folder", "Rename a folder", "Rename a folder"),
        ("2ad9387a-65d8-4e33-ad5b-7580065a27ca", "In my Documents there…", "In my Documents there…"),
    ],
)
def test_a_task_is_named_by_its_id_only_where_its_title_says_nothing_of_its_own(task_id, title, name):
    task = FakeTask(task_id, title, "In my Documents there is a folder; rename it.")
    assert tags.task_name(task) == name
