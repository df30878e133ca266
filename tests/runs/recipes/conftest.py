"""The fixtures for real desktops and for OSWorld's files, for the tests that play recipes."""

from tests.desktops.conftest import engine, engine_address, image, start_computer
from tests.runs.tasksets.conftest import osworld_folder

__all__ = ["engine", "engine_address", "image", "osworld_folder", "start_computer"]
