"""The web application without a browser: closed routes, origins, headers."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import Server


@dataclass
class Answer:
    """A response, read."""

    status: int
    text: str
    headers: http.client.HTTPMessage

    def getheader(self, name: str) -> str | None:
        return self.headers.get(name)


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> Answer:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return Answer(response.status, response.read().decode(), response.headers)
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path", ["/docs", "/redoc", "/openapi.json", "/mcp", "/auth/jwt", "/project/share/x"]
)
def test_what_a_study_has_no_use_for_is_closed_with_help_on_the_page(server: Server, path: str) -> None:
    response = ask(server, path)
    assert response.status == 404
    assert "/help" in response.text


def test_another_origin_may_not_post(server: Server) -> None:
    assert ask(server, "/auth/header", "POST", Origin="http://evil.example").status == 404
    assert ask(server, "/auth/header", "POST", Origin=server.url).status == 200


def test_another_origin_is_not_echoed(server: Server) -> None:
    response = ask(server, "/auth/config", Origin="http://evil.example")
    assert response.getheader("access-control-allow-origin") != "http://evil.example"


def test_the_socket_of_another_origin_is_refused(server: Server) -> None:
    headers = {
        "Origin": "http://evil.example", "Connection": "Upgrade", "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    assert ask(server, "/ws/socket.io/?EIO=4&transport=websocket", **headers).status == 403


def test_every_page_carries_the_headers(server: Server) -> None:
    for path in ("/", "/help", "/about", "/docs"):
        response = ask(server, path)
        assert "default-src 'none'" in (response.getheader("content-security-policy") or "")
        assert "unsafe-eval" not in (response.getheader("content-security-policy") or "")
        assert response.getheader("referrer-policy") == "same-origin"
        assert response.getheader("cache-control") == "no-store"


def test_the_page_names_no_other_host(server: Server) -> None:
    page = ask(server, "/").text
    assert "googleapis" not in page and "jsdelivr" not in page and "<noscript>" in page


def test_help_needs_no_login(server: Server) -> None:
    response = ask(server, "/help?country=FR")
    assert response.status == 200
    assert "3114" in response.text


def test_leaving_clears_what_this_site_kept(server: Server) -> None:
    response = ask(server, "/leave")
    assert response.status == 200
    assert "cookies" in (response.getheader("clear-site-data") or "")
