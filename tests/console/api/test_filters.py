from __future__ import annotations

import pytest

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("address", "choices"),
    [
        ("/v1/runs?status=finished", "queued, preparing, running"),
        ("/v1/runs?kind=training", "scripted_test, evaluation"),
        ("/v1/templates?status=new", "draft, published, retired"),
    ],
)
def test_a_value_that_is_none_of_the_choices_is_told_which_there_are(address, choices, workspace, api):
    reply = api("runs:read").get(address)
    assert reply.status_code == 422
    [error] = reply.json()["errors"]
    assert error["message"].startswith(address.split("=")[1])
    assert choices in error["message"]
