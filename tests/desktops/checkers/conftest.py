import pytest

from .fake_guest import FakeGuest


@pytest.fixture
def guest() -> FakeGuest:
    return FakeGuest()
