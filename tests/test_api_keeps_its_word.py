"""Requests made up by machine: nothing breaks the API, and every reply is one its OpenAPI document names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from console.models import Workspace
from runs.spec import FIELDS
from tests.factories import (
    AttemptFactory,
    AttemptTryFactory,
    EventFactory,
    RunFactory,
    StepFactory,
    WorkerFactory,
    document,
    recount,
)
from tests.real_ids import real_ids

pytestmark = pytest.mark.django_db
QUICK = {
    "deadline": None,
    "database": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)


def test_no_document_breaks_the_api(api: Callable[..., APIClient], material: dict[str, Any]) -> None:
    client = api("runs:write")
    good = document("basics", ["task-1", "task-2"])

    @settings(max_examples=150, **QUICK)
    @given(
        changes=st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=10), json_values, max_size=4),
        absent=st.sets(st.sampled_from(FIELDS), max_size=2),
    )
    def send(changes: dict[str, Any], absent: set[str]) -> None:
        body = {key: value for key, value in {**good, **changes}.items() if key not in absent}
        reply = client.post("/v1/runs", body)
        assert reply.status_code in (201, 422), reply.content
        if reply.status_code == 422:
            for error in reply.json()["errors"]:
                assert error["field"][:100] in {*FIELDS, *(key[:100] for key in changes)}
                assert error["message"]

    send()


@pytest.fixture
def application() -> Iterator[WSGIHandler]:
    """The console as a server runs it, but on the test's own connection, as Django's client does it."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield WSGIHandler()
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.timeout(240)
def test_every_reply_is_one_the_document_names(
    secret_for: Callable[..., str],
    workspace: Workspace,
    material: dict[str, Any],
    application: WSGIHandler,
) -> None:
    run = RunFactory(workspace=workspace, status="running", planned=3)
    attempt = AttemptFactory(run=run, valid=True)
    StepFactory.create_batch(2, attempt_try=AttemptTryFactory(attempt=attempt))
    AttemptFactory(run=run, faulty=True)
    EventFactory.create_batch(3, run=run)
    WorkerFactory(workspace=workspace)
    recount(run)
    bearer = {"Authorization": f"Bearer {secret_for()}"}
    schema = schemathesis.openapi.from_wsgi("/v1/schema", application)
    tried = 0

    ids = real_ids(run)

    def name_what_is_there(case: Any) -> None:
        """Where the address names something."""
        parameters = case.path_parameters or {}
        if "id" in parameters:
            parameters["id"] = ids[case.path.split("/")[2]]
        if "name" in parameters:
            parameters["name"] = "basics"
        if "number" in parameters:
            parameters["number"] = 1

    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(max_examples=12, **QUICK)
        @given(case=operation.as_strategy(), there=st.booleans())
        def call(case: Any, there: bool) -> None:
            nonlocal tried
            if there:
                name_what_is_there(case)
            case.validate_response(case.call(headers=bearer), checks=CHECKS)
            tried += 1

        call()
    assert tried > 100
