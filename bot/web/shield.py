"""What every response carries and what is closed: headers, origin, the routes Chainlit would open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.web.pages import error_page

CSP = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; "
    "manifest-src 'self'; worker-src 'self' blob:"
)
COOKIE = "access_token"
STATIC = ("/assets", "/public")
CLOSED = ("/docs", "/redoc", "/openapi.json", "/mcp", "/auth/jwt", "/project/share", "/project/file")


class Shield:
    """Pure ASGI. Refuses other origins, on the socket too, and closes what a sensitive study has no use for.

    A cookie that is not good any more is taken out of the request here, so that nothing behind sees it; so is a token in a
    header, which Chainlit would take.
    """

    def __init__(
        self, app: ASGIApp, *, origin: str, is_good: Callable[[Mapping[str, str]], Awaitable[bool]]
    ) -> None:
        self._app = app
        self._origin = origin
        self._is_good = is_good

    async def _at_the_door(self, scope: Scope) -> Scope:
        """The request without what signs nobody in."""
        headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        told = "; ".join(value.decode("latin-1") for name, value in headers if name == b"cookie")
        cookies = cookie_parser(told)
        signed_in = any(name.startswith(COOKIE) for name in cookies)
        if signed_in and not await self._is_good(cookies):
            left = "; ".join(f"{k}={v}" for k, v in cookies.items() if not k.startswith(COOKIE))
            headers = [(name, value) for name, value in headers if name != b"cookie"]
            headers += [(b"cookie", left.encode("latin-1"))] if left else []
        return {**scope, "headers": headers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through, refuse, or dress the response."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if not scope["path"].startswith(STATIC):
            scope = await self._at_the_door(scope)
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        if scope["type"] == "websocket":
            if origin != self._origin:
                await send({"type": "websocket.close", "code": 4403})
                return
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        foreign = origin and origin != self._origin and scope["method"] not in ("GET", "HEAD")
        if foreign or path.startswith(CLOSED):
            page = error_page("There is nothing here")
            await HTMLResponse(page, HTTPStatus.NOT_FOUND)(scope, receive, self._dressed(path, send))
            return
        await self._app(scope, receive, self._dressed(path, send))

    def _dressed(self, path: str, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                allowed = headers.get("access-control-allow-origin")
                if allowed and allowed != self._origin:
                    del headers["access-control-allow-origin"]
                    del headers["access-control-allow-credentials"]
                headers["content-security-policy"] = CSP
                headers["x-content-type-options"] = "nosniff"
                headers["referrer-policy"] = "same-origin"
                headers["x-frame-options"] = "DENY"
                headers["cross-origin-opener-policy"] = "same-origin"
                headers["permissions-policy"] = "camera=(), microphone=(), geolocation=()"
                if not path.startswith(STATIC):
                    headers["cache-control"] = "no-store"
                if self._origin.startswith("https"):
                    cookies = [
                        v + "; Secure" if "secure" not in v.lower() else v
                        for v in headers.getlist("set-cookie")
                    ]
                    del headers["set-cookie"]
                    for cookie in cookies:
                        headers.append("set-cookie", cookie)
            await send(message)

        return sending
