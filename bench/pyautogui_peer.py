"""The peer of "action + screenshot", run inside a desktop: pyautogui, imported once, behind Python's own HTTP server.

`pyautogui_peer.py TIMES PAUSE` serves in a child process and measures over loopback in this one: a POST moves the
pointer and answers with a fresh PNG of the screen, on one kept connection. Prints as JSON the milliseconds of each and
the processor time of the server, mean milliseconds. PAUSE is pyautogui's own wait after each call, by default 0.1 s.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Peer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # the answer in one piece, so that Nagle's algorithm does not count against the peer
    hands: Any = None

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.hands.moveTo(asked["x"], asked["y"])
        buffer = io.BytesIO()
        self.hands.screenshot().save(buffer, "PNG")
        self.send_response(200)
        self.send_header("Content-Type", "image/png")
        self.send_header("Content-Length", str(buffer.tell()))
        self.end_headers()
        self.wfile.write(buffer.getvalue())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: only figures are printed."""


def serve(server: HTTPServer, pause: float) -> None:
    import pyautogui

    pyautogui.PAUSE = pause
    pyautogui.FAILSAFE = False
    Peer.hands = pyautogui
    server.serve_forever()


def processor_ms(pid: int) -> float:
    """What a process and the children it waited for have used so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(int(value) for value in fields[11:15]) * 1000 / os.sysconf("SC_CLK_TCK")


def ask(connection: http.client.HTTPConnection, step: int) -> float:
    body = json.dumps({"x": 100 + 17 * step % 1700, "y": 100 + 11 * step % 800})
    began = time.perf_counter()
    connection.request("POST", "/", body)
    picture = connection.getresponse().read()
    took = (time.perf_counter() - began) * 1000
    if picture[1:4] != b"PNG" or int.from_bytes(picture[16:20], "big") != 1920:
        raise ValueError("the peer gave no picture of the screen")
    return took


def measure(port: int, server: int, times: int) -> tuple[list[float], float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    ask(connection, 0)  # not counted: it waits for the import
    used = processor_ms(server)
    found = [ask(connection, step + 1) for step in range(times)]
    return found, (processor_ms(server) - used) / times


def main() -> None:
    server = HTTPServer(("127.0.0.1", 0), Peer)
    child = os.fork()
    if child == 0:
        serve(server, float(sys.argv[2]))
    try:
        print(json.dumps(measure(server.server_port, child, int(sys.argv[1]))))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
