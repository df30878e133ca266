from __future__ import annotations

import pytest

from tests.factories import PNG, blob

pytestmark = pytest.mark.django_db


def test_a_member_sees_a_screenshot_that_may_be_kept_for_good(workspace, member, client_for):
    row = blob(workspace)
    reply = client_for(member).get(f"/w/lab/blobs/{row.sha256}")
    assert b"".join(reply.streaming_content) == PNG
    assert reply["Content-Type"] == "image/png"
    assert "immutable" in reply["Cache-Control"]
    assert "private" in reply["Cache-Control"]


def test_a_browser_that_has_it_is_not_sent_it_again(workspace, member, client_for):
    row = blob(workspace)
    headers = {"If-None-Match": f'"{row.sha256}"'}
    assert client_for(member).get(f"/w/lab/blobs/{row.sha256}", headers=headers).status_code == 304


def test_evidence_never_runs_as_a_page_of_ours(workspace, member, client_for):
    row = blob(workspace, b"<script>alert(1)</script>", "text/html")
    reply = client_for(member).get(f"/w/lab/blobs/{row.sha256}")
    assert b"".join(reply.streaming_content)
    assert reply["Content-Type"] == "application/octet-stream"
    assert reply["Content-Disposition"].startswith("attachment")
    assert reply["X-Content-Type-Options"] == "nosniff"


def test_another_workspaces_file_is_404_even_by_its_digest(workspace, other_workspace, outsider, client_for):
    row = blob(workspace)
    assert client_for(outsider).get(f"/w/lab/blobs/{row.sha256}").status_code == 404
    assert client_for(outsider).get(f"/w/elsewhere/blobs/{row.sha256}").status_code == 404


@pytest.mark.parametrize("digest", ["0" * 64, "x", "..%2f..%2fetc%2fpasswd"])
def test_what_is_not_stored_is_404(digest, workspace, member, client_for):
    assert client_for(member).get(f"/w/lab/blobs/{digest}").status_code == 404


def test_a_wrong_method_is_refused(workspace, member, client_for):
    assert client_for(member).post(f"/w/lab/blobs/{blob(workspace).sha256}").status_code == 405
