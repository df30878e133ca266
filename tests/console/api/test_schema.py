"""The OpenAPI document: its committed snapshot and the page that shows it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiYamlRenderer
from drf_spectacular.validation import validate_schema

SNAPSHOT = Path(__file__).parents[3] / "docs" / "openapi.yaml"


def generated() -> bytes:
    schema = SchemaGenerator().get_schema(request=None, public=True)
    validate_schema(schema)
    return OpenApiYamlRenderer().render(schema, renderer_context={})


def test_the_snapshot_is_what_the_code_says() -> None:
    """Changed on purpose? DESKYARD_WRITE_SNAPSHOTS=1 and commit the difference."""
    if os.environ.get("DESKYARD_WRITE_SNAPSHOTS"):
        SNAPSHOT.parent.mkdir(exist_ok=True)
        SNAPSHOT.write_bytes(generated())
    assert generated().decode() == SNAPSHOT.read_text()


def test_the_document_is_made_without_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    with GENERATOR_STATS.silence():
        generated()
    assert not capsys.readouterr().err


def test_every_operation_says_what_it_does_and_how_it_refuses() -> None:
    document = yaml.safe_load(generated())
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            named = (method, path)
            assert operation["summary"], named
            said = operation.get("description", "").partition("Needs the scope")[0].strip()
            assert said, named
            assert "self." not in said, named
            for code, reply in operation["responses"].items():
                if code >= "400":
                    [(kind, content)] = reply["content"].items()
                    assert (kind, content["schema"]) == (
                        "application/problem+json",
                        {"$ref": "#/components/schemas/Problem"},
                    ), named
                    assert reply["description"], named
            if operation.get("security"):
                assert {"400", "401", "403"} <= set(operation["responses"]), named


def test_anybody_may_read_the_document(client: Client) -> None:
    reply = client.get("/v1/schema", headers={"Accept": "application/vnd.oai.openapi"})
    assert reply.status_code == 200
    assert yaml.safe_load(reply.content)["info"]["title"] == "Deskyard API"


def test_the_page_needs_no_script_in_it(client: Client) -> None:
    reply = client.get("/v1/docs/")
    assert reply.status_code == 200
    assert "script-src 'self'" in reply["Content-Security-Policy"]
    page = reply.content.decode()
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 3
    for attributes, text in scripts:
        assert "src=" in attributes
        assert not text.strip()
    assert not re.search(r"https?://(?!testserver)", page)


def test_the_pages_own_script_is_served(client: Client) -> None:
    page = client.get("/v1/docs/").content.decode()
    [address] = [src for src in re.findall(r'<script src="([^"]+)"', page) if "?script" in src]
    reply = client.get(address.replace("&amp;", "&"))
    assert reply.status_code == 200
    assert "javascript" in reply["Content-Type"]
