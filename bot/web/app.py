"""The app that `raise-chat serve` runs: Chainlit mounted under our own FastAPI, with our pages and our shield."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from bot.errors import SettingsError
from bot.settings import Settings
from bot.web import pages, ui
from bot.web.shield import Shield
from policies import crisis, guidance

CHAT = Path(__file__).with_name("chainlit_app.py")

log = logging.getLogger("raise.web")


def prepare_environment(settings: Settings) -> None:
    """What Chainlit and its companions read when they are imported; call before that."""
    secret = settings.auth_secret.get_secret_value() if settings.auth_secret else secrets.token_urlsafe(48)
    os.environ["CHAINLIT_AUTH_SECRET"] = secret
    os.environ["CHAINLIT_APP_ROOT"] = str(ui.ROOT)
    os.environ["OTEL_SDK_DISABLED"] = "true"
    os.environ["TRACELOOP_TELEMETRY"] = "false"
    os.environ["LITERAL_API_KEY"] = ""
    ui.build()
    ui.write_translation(ui.ROOT / ".chainlit" / "translations" / "en-US.json")


async def _forget_hourly() -> None:
    """Visitors who are gone for a day are forgotten even when nobody else comes."""
    from bot.web import chat  # noqa: PLC0415 (Chainlit loads it first)

    while True:
        await asyncio.sleep(3600)
        chat.forget_old()


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


def create_app(settings: Settings) -> FastAPI:
    """The whole web application.

    Raises:
        PolicyError: a policy file or the encoder cannot be used: better no chat than one without its safety net.
        SettingsError: Chainlit is missing.
    """
    if settings.country and settings.country not in crisis.shipped().countries:
        raise SettingsError(f"RAISE_COUNTRY={settings.country} is not in our resources; ISO codes such as GB")
    prepare_environment(settings)
    quiet_logs()
    from chainlit.config import FILES_DIRECTORY, config  # noqa: PLC0415 (reads the environment prepared above)
    from chainlit.utils import mount_chainlit  # noqa: PLC0415

    files = Path(FILES_DIRECTORY)
    config.project.allow_origins = [settings.origin]
    shutil.rmtree(files, ignore_errors=True)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if config.code.on_app_startup:
            await config.code.on_app_startup()
        forgetting = asyncio.create_task(_forget_hourly())
        yield
        forgetting.cancel()
        if config.code.on_app_shutdown:
            await config.code.on_app_shutdown()
        shutil.rmtree(files, ignore_errors=True)

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    directory = crisis.shipped()

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        return JSONResponse({"ok": True})

    @app.get("/help")
    async def help_now(country: str = "") -> HTMLResponse:
        chosen = directory.countries.get((country or settings.country).upper())
        return HTMLResponse(pages.help_page(directory, chosen))

    @app.get("/about")
    async def about() -> HTMLResponse:
        return HTMLResponse(pages.about_page(guidance.shipped(), checked=directory.verified_on))

    @app.get("/leave")
    async def leave() -> Response:
        """Leaves nothing to go back to: cookies and storage of this site are cleared on the way out."""
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

    mount_chainlit(app=app, target=str(CHAT), path="/")
    app.add_middleware(Shield, origin=settings.origin)
    return app
