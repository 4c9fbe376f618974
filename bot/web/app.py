"""The app that `raise-chat serve` runs: Chainlit mounted under our own FastAPI, with our pages and our shield."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.base import RequestResponseEndpoint

from bot.errors import SettingsError
from bot.escalation import channels
from bot.messages import messages
from bot.models import connect
from bot.settings import Settings
from bot.sweeping import Heads, Sweeper
from bot.web import data_pages, metrics, operator_pages, pages, study_pages, ui
from bot.web.shield import Shield
from policies import crisis, guidance
from policies.crisis import Directory
from privacy.scheduler import SweepSchedule

PARK_EVERY_SECONDS = 20.0
CHAT = Path(__file__).with_name("chainlit_app.py")

log = logging.getLogger("raise.web")


def prepare_environment(settings: Settings) -> None:
    """What Chainlit and its companions read when they are imported; call before that."""
    secret = (
        settings.auth_secret.get_secret_value() if settings.auth_secret else _own_secret(settings.data_dir)
    )
    os.environ["CHAINLIT_AUTH_SECRET"] = secret
    os.environ["CHAINLIT_APP_ROOT"] = str(ui.ROOT)
    os.environ["OTEL_SDK_DISABLED"] = "true"
    os.environ["TRACELOOP_TELEMETRY"] = "false"
    os.environ["LITERAL_API_KEY"] = ""
    ui.build()
    ui.write_translation(ui.ROOT / ".chainlit" / "translations" / "en-US.json")


def _own_secret(directory: Path) -> str:
    """Signs cookies; made once and kept with mode 0600, so that visitors are known again after a restart."""
    path = directory / "cookie.secret"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        suppress(FileExistsError),
        os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out,
    ):
        out.write(secrets.token_urlsafe(48))
    return path.read_text(encoding="ascii").strip()


OURS = (
    "/consent", "/my-data", "/feedback", "/help", "/call/", "/text/", "/protocol", "/about", "/leave", "/login", "/sign-in", "/logout",
    "/closed", "/questions/", "/finish", "/operator", "/healthz", "/readyz", "/metrics", "/assets", "/public", "/avatars",
    "/favicon", "/logo", "/ws", "/project", "/auth", "/user", "/set-session-cookie",
)  # fmt: skip
"""Paths that are not the chat's own page, which Chainlit serves under every other one."""


def is_chat_page(request: Request) -> bool:
    """Whether the answer would be the page of the chat."""
    return request.method in ("GET", "HEAD") and not request.url.path.startswith(OURS)


def give_back() -> None:
    """Memory that was freed goes back to the system, where the C library can do that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def _park_often() -> None:
    """Who is gone takes little memory, and who is gone for a day takes none, even when nobody else comes."""
    from bot.web import chat, visitors  # noqa: PLC0415 (Chainlit loads late)

    while True:
        await asyncio.sleep(PARK_EVERY_SECONDS)
        try:
            await chat.park_idle()
            visitors.forget_old()
            give_back()
        except Exception as failed:  # noqa: BLE001 (the next round may do it)
            log.error("who is gone was not parked: %s", type(failed).__name__)


class TypeOnly(logging.Filter):
    """Keeps exception text and tracebacks, which may hold what a person wrote, out of every log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Reduce a record that carries an exception to its first line and the exception's type."""
        if record.exc_info:
            kind = record.exc_info[0].__name__ if record.exc_info[0] else "exception"
            record.msg, record.args = f"{str(record.msg).splitlines()[0]} ({kind})", ()
            record.exc_info = record.exc_text = None
        return True


def quiet_logs() -> None:
    """Chainlit's log is closed, as it may hold message text; the server's shows types only."""
    logging.getLogger("chainlit").setLevel(logging.CRITICAL + 1)
    for name in ("uvicorn.error", "asyncio", "engineio.server", "socketio.server"):
        logging.getLogger(name).addFilter(TypeOnly())


def _alerts(settings: Settings) -> str:
    """Who is told of danger, in words: the same sentence as in the chat."""
    said = messages()
    return said[settings.alerts_key].format(response=settings.on_call_response or said["alerts_no_promise"])


def _number_page(directory: Directory, number: str, scheme: str, verb: str) -> HTMLResponse:
    """A page with one link to dial; numbers that are not ours get the help page instead."""
    if re.sub(r"\D", "", number) not in directory.numbers():
        return HTMLResponse(pages.help_page(directory, None), HTTPStatus.NOT_FOUND)
    return HTMLResponse(pages.number_page(number, scheme, verb))


def create_app(settings: Settings) -> FastAPI:
    """The whole web application.

    Raises:
        PolicyError: a policy file or the encoder cannot be used: better no chat than one without its safety net.
        SettingsError: Chainlit is missing.
    """
    if settings.country and settings.country not in crisis.shipped().countries:
        raise SettingsError(f"RAISE_COUNTRY={settings.country} is not in our resources; ISO codes such as GB")
    channels(settings)
    connect.endpoint(settings)
    prepare_environment(settings)
    quiet_logs()
    from chainlit.config import FILES_DIRECTORY, config  # noqa: PLC0415 (reads the environment prepared above)
    from chainlit.utils import mount_chainlit  # noqa: PLC0415

    from bot.web import chat, doors, house, visitors  # noqa: PLC0415 (they load Chainlit and the deployment)

    house.build_arms()
    files = Path(FILES_DIRECTORY)
    config.project.allow_origins = [settings.origin]
    shutil.rmtree(files, ignore_errors=True)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if config.code.on_app_startup:
            await config.code.on_app_startup()
        tasks = [asyncio.create_task(_park_often()), asyncio.create_task(doors.watch())]
        sweeper = Sweeper(house.keeping, Heads.of(settings))
        schedule = SweepSchedule(house.keeping.rules.sweep, sweeper.sweep)
        schedule.start()
        app.state.schedule = schedule
        yield
        schedule.stop()
        await sweeper.stop()
        for task in tasks:
            task.cancel()
        await asyncio.to_thread(house.desk.close)
        await asyncio.to_thread(chat.close)
        if config.code.on_app_shutdown:
            await config.code.on_app_shutdown()
        shutil.rmtree(files, ignore_errors=True)

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    directory = crisis.shipped()

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        return JSONResponse({"ok": True})

    @app.get("/metrics")
    async def metrics_page(request: Request) -> Response:
        """Counts for a monitor on this machine; nobody else learns that there is such a page."""
        if not metrics.may_see(request):
            raise StarletteHTTPException(HTTPStatus.NOT_FOUND)
        gauges = await house.keeping.run(metrics.gauges, house.keeping)
        gauges["raise_pages", "Pages open"] = chat.pages_open()
        gauges["raise_visitors", "Conversations held in memory"] = len(visitors.visitors)
        gauges["raise_parked", "Conversations of who is gone, held small"] = len(visitors.parked)
        return Response(metrics.page(house.parts.endpoint, gauges), media_type=metrics.MEDIA_TYPE)

    @app.get("/help")
    async def help_now(country: str = "") -> HTMLResponse:
        chosen = directory.countries.get((country or settings.country).upper())
        return HTMLResponse(pages.help_page(directory, chosen))

    @app.get("/call/{number}")
    async def call(number: str) -> HTMLResponse:
        return _number_page(directory, number, "tel", "Call")

    @app.get("/text/{number}")
    async def text(number: str) -> HTMLResponse:
        return _number_page(directory, number, "sms", "Text")

    @app.get("/protocol")
    async def protocol() -> HTMLResponse:
        return HTMLResponse(pages.protocol_page(checked=directory.verified_on, alerts=_alerts(settings)))

    @app.get("/about")
    async def about() -> HTMLResponse:
        page = pages.about_page(guidance.shipped(), checked=directory.verified_on, alerts=_alerts(settings))
        return HTMLResponse(page)

    @app.get("/leave")
    async def leave(request: Request) -> Response:
        """Leaves nothing to go back to: what we hold of the visitor, cookies and storage are cleared on the way out."""
        person = doors.who(request)
        if person is not None:
            visitors.forget(person)
            await doors.leave(request, Response(), is_leaving=True)
        clear = {"clear-site-data": '"cache", "cookies", "storage"'}
        if settings.quick_exit_url:
            return Response(
                status_code=HTTPStatus.FOUND, headers={**clear, "location": settings.quick_exit_url}
            )
        return HTMLResponse(
            "<!doctype html><html lang=en><title>New tab</title><body></body></html>", headers=clear
        )

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> HTMLResponse:
        log.error("request failed: %s", type(error).__name__)
        page = pages.error_page("Something went wrong on our side")
        return HTMLResponse(page, HTTPStatus.INTERNAL_SERVER_ERROR)

    @app.exception_handler(StarletteHTTPException)
    async def refused(request: Request, error: StarletteHTTPException) -> Response:
        """Every page that says no shows where help is; programs get their JSON."""
        if "text/html" not in request.headers.get("accept", "text/html"):
            return JSONResponse({"detail": str(error.detail), "help": "/help"}, error.status_code)
        return HTMLResponse(pages.error_page("This page can't be shown"), error.status_code)

    data_pages.add_routes(app, settings)
    study_pages.add_routes(app, settings)
    operator_pages.add_routes(app, settings)

    @app.middleware("http")
    async def ask_first(request: Request, go_on: RequestResponseEndpoint) -> Response:
        """In a study the chat opens to who is signed in and has said yes to it, after a form or questions where there are some."""
        if is_chat_page(request) and (first := await app.state.gate(request)) is not None:
            return RedirectResponse(first, HTTPStatus.SEE_OTHER)
        return await go_on(request)

    mount_chainlit(app=app, target=str(CHAT), path="/")
    app.add_middleware(Shield, origin=settings.origin, is_good=doors.is_good)
    return app
