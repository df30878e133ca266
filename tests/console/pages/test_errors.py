from __future__ import annotations

from django.template.loader import render_to_string


def test_the_500_page_needs_neither_database_nor_session():
    """No database mark: a query would fail the test. No request either."""
    text = render_to_string("500.html")
    assert "Something broke on our side" in text
    assert "<style" not in text
