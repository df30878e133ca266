import pytest

from tests.desktops.checkers.fake_guest import FakeGuest


@pytest.fixture
def guest() -> FakeGuest:
    return FakeGuest()
