"""Settings: flags over variables over defaults, and a sentence for each that cannot be used."""

from __future__ import annotations

import pytest

from desktops.worker.config import ConfigError, load

ENVIRON = {"DESKYARD_URL": "http://console:8000/", "DESKYARD_WORKER_TOKEN": "dy_x"}


def test_the_websocket_hangs_below_the_consoles_address():
    assert load([], ENVIRON).websocket_url == "ws://console:8000/ws/worker"
    secure = load(["--url", "https://console/base"], ENVIRON)
    assert secure.websocket_url == "wss://console/base/ws/worker"


def test_a_flag_wins_over_its_variable():
    config = load(["--slots", "3", "--engine", "process"], ENVIRON | {"DESKYARD_SLOTS": "9"})
    assert (config.slots, config.engine) == (3, "process")


def test_the_slots_are_the_engines_business_unless_given():
    config = load([], ENVIRON)
    assert config.slots is None
    assert config.name
    assert config.engine == "auto"


def test_a_desktop_may_write_ten_gibibytes_unless_something_else_is_said():
    assert load([], ENVIRON).disk_mb == 10 * 1024
    assert load(["--disk-mb", "64"], ENVIRON).disk_mb == 64
    assert load([], ENVIRON | {"DESKYARD_DISK_MB": "0"}).disk_mb == 0


def test_the_token_may_come_from_a_file(tmp_path):
    file = tmp_path / "token"
    file.write_text("dy_file\n")
    environ = {"DESKYARD_URL": "http://c", "DESKYARD_WORKER_TOKEN_FILE": str(file)}
    assert load([], environ).token == "dy_file"


def test_the_home_lies_below_the_projects_data(tmp_path):
    config = load([], ENVIRON | {"DESKYARD_HOME": str(tmp_path)})
    assert config.home == tmp_path / "worker"


def test_saved_desktops_have_a_bound_of_their_own_or_the_usual_one():
    assert load([], ENVIRON).states_mb is None
    assert load([], ENVIRON | {"DESKYARD_STATES_MB": "0"}).states_mb == 0
    assert load(["--states-mb", "500"], ENVIRON | {"DESKYARD_STATES_MB": "9"}).states_mb == 500


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"DESKYARD_URL": ""}, "DESKYARD_URL"),
        ({"DESKYARD_URL": "console:8000"}, "DESKYARD_URL"),
        ({"DESKYARD_WORKER_TOKEN": ""}, "DESKYARD_WORKER_TOKEN"),
        (
            {"DESKYARD_WORKER_TOKEN": "", "DESKYARD_WORKER_TOKEN_FILE": "/no/such"},
            "DESKYARD_WORKER_TOKEN_FILE",
        ),
        ({"DESKYARD_WORKER_TOKEN": "dy\nx"}, "DESKYARD_WORKER_TOKEN"),
        ({"DESKYARD_SLOTS": "0"}, "DESKYARD_SLOTS"),
        ({"DESKYARD_SLOTS": "many"}, "DESKYARD_SLOTS"),
        ({"DESKYARD_DISK_MB": "10g"}, "DESKYARD_DISK_MB"),
        ({"DESKYARD_DISK_MB": "1"}, "DESKYARD_DISK_MB"),
        ({"DESKYARD_READY": "some"}, "DESKYARD_READY"),
        ({"DESKYARD_READY": "1000"}, "DESKYARD_READY"),
        ({"DESKYARD_STATES_MB": "-1"}, "DESKYARD_STATES_MB"),
        ({"DESKYARD_STATES_MB": "20 GB"}, "DESKYARD_STATES_MB"),
    ],
)
def test_what_cannot_be_used_is_named(change, named):
    with pytest.raises(ConfigError, match=named):
        load([], ENVIRON | change)
