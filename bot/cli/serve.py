"""`raise-chat serve`: the chat in a browser."""

from __future__ import annotations

import logging
import webbrowser

import click

from bot.errors import SettingsError
from bot.settings import read_settings


@click.command()
@click.option("--open", "open_browser", is_flag=True, help="Open the chat in a browser once it answers.")
def serve(*, open_browser: bool) -> None:
    """Start the chat in the browser."""
    settings = read_settings()
    import uvicorn  # noqa: PLC0415 (only serving needs it)

    from bot.web.app import create_app  # noqa: PLC0415

    if settings.model_base_url:
        logging.getLogger("raise.conversation").setLevel(logging.INFO)  # calls, tokens and seconds a turn
    click.echo("Loading the built-in model…")
    app = create_app(settings)
    click.echo(f"The chat is at {settings.origin}  (help page: {settings.origin}/help). Ctrl+C stops it.")
    if open_browser:
        import threading  # noqa: PLC0415

        threading.Timer(1.5, webbrowser.open, args=(settings.origin,)).start()
    try:
        uvicorn.run(
            app,
            host=settings.host,
            port=settings.port,
            log_level="warning",
            access_log=False,
            server_header=False,
            loop="uvloop",
            ws_per_message_deflate=False,  # a compressor a page costs 80 KB each, for messages of a few hundred bytes
        )
    except SystemExit as stopped:
        if stopped.code:
            raise SettingsError(
                f"could not listen on {settings.host}:{settings.port}; is another program using it? Set RAISE_PORT"
            ) from None
        raise
