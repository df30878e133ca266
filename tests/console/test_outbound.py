"""Where a webhook may go, and how long it may take."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from console import outbound

from .receiver import Receiver


@pytest.fixture
def private(settings: Any) -> None:
    settings.WEBHOOKS_TO_PRIVATE = True


def send(url: str) -> outbound.Answer:
    return outbound.post(url, headers={"webhook-id": "msg_1"}, body=b"{}")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https://",
        "https:///x",
        "https://127.0.0.1/",
        "https://127.1.2.3:8443/",
        "https://10.0.0.1/",
        "https://172.16.0.1/",
        "https://192.168.1.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://100.64.0.1/",
        "https://0.0.0.0/",
        "https://224.0.0.1/",
        "https://255.255.255.255/",
        "https://[::1]/",
        "https://[::]/",
        "https://[fe80::1]/",
        "https://[fc00::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[2002:7f00:1::]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[64:ff9b:1::7f00:1]/",
        "https://[::127.0.0.1]/",
        "https://[::ffff:0:7f00:1]/",
        "https://[fec0::1]/",
        "https://[3fff::1]/",
        "https://[5f00::1]/",
        "https://192.88.99.1/",
        "https://192.0.0.8/",
        "https://localhost/",
        "https://db.localhost./",
        "https://user:secret@example.com/",
        "https://example.com/#part",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://exa mple.com/",
        "https://exämple.com/",
        "https://example.com/" + "x" * 600,
        "javascript:alert(1)",
        "",
    ],
)
def test_an_address_that_is_not_of_the_public_internet_is_refused(url: str) -> None:
    with pytest.raises(outbound.BadAddress):
        outbound.parts_of(url)


@pytest.mark.parametrize(
    "url", ["https://example.com", "https://example.com:8443/a?b=c", "https://93.184.216.34/x"]
)
def test_a_public_address_is_taken(url: str) -> None:
    outbound.parts_of(url)


@pytest.mark.parametrize("answers", [["127.0.0.1"], ["93.184.216.34", "10.0.0.7"], ["::ffff:10.0.0.1"]])
def test_a_name_that_leads_inside_is_refused_when_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, answers: list[str]
) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in answers]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    answer = send("https://hooks.example.com/x")
    assert (answer.status, answer.error) == (None, "Must be an address of the public internet.")


def test_a_message_arrives_as_it_was_given(private: None) -> None:
    with Receiver() as receiver:
        answer = send(receiver.url)
    assert answer.ok
    assert answer.status == 204
    [got] = receiver.got
    assert (got.path, got.headers["webhook-id"], got.body) == ("/hook?key=1", "msg_1", "{}")


def test_a_redirect_is_not_followed(private: None) -> None:
    with Receiver(status=302) as receiver:
        answer = send(receiver.url)
    assert len(receiver.got) == 1
    assert not answer.ok
    assert "redirects" in answer.error


def test_nobody_there_and_an_unknown_name_are_said_in_words(private: None) -> None:
    with Receiver() as receiver:
        gone = receiver.url
    assert "No connection" in send(gone).error
    assert "cannot be resolved" in send("http://nowhere.invalid/").error


def test_one_that_drips_its_answer_is_cut_off(private: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "TOTAL_SECONDS", 0.5)
    over = threading.Event()

    def drip(handler: Any) -> None:
        while not over.wait(0.05):
            try:
                handler.wfile.write(b"H")
            except OSError:
                return

    with Receiver(hold=drip) as receiver:
        began = time.monotonic()
        answer = send(receiver.url)
        took = time.monotonic() - began
        over.set()
    assert not answer.ok
    assert took < 60  # it would drip for ever


def test_no_more_than_a_bounded_part_of_the_answer_is_read(private: None) -> None:
    def flood(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(1 << 30))
        handler.end_headers()
        try:
            for _ in range(1 << 10):
                handler.wfile.write(b"x" * (1 << 20))
        except OSError:
            return

    with Receiver(hold=flood) as receiver:
        assert send(receiver.url).ok
