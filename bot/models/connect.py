"""From settings to an endpoint, or to none."""

from __future__ import annotations

import ipaddress
import math
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bot.errors import SettingsError
from bot.models.usage import Role
from bot.settings import Settings

if TYPE_CHECKING:
    from bot.models.openai_api import Endpoint


def endpoint(settings: Settings, *, client: Any = None) -> Endpoint | None:
    """The endpoint that is set, or None for the built-in model alone.

    Args:
        settings: in force.
        client: of HTTP, in place of the usual one.

    Raises:
        SettingsError: it is elsewhere and not https, or no model is named.
    """
    if not settings.model_base_url:
        if settings.model:
            raise SettingsError("RAISE_MODEL needs RAISE_MODEL_BASE_URL, the endpoint that serves it")
        return None
    parts = urlsplit(settings.model_base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError("RAISE_MODEL_BASE_URL: not an http address such as http://127.0.0.1:11434/v1")
    if not is_loopback(parts.hostname) and parts.scheme != "https":
        raise SettingsError(
            "RAISE_MODEL_BASE_URL: an endpoint elsewhere must be https: what people confide would cross the network in clear"
        )
    from bot.models import openai_api as api  # noqa: PLC0415 (loads the client, a second's wait)

    own = {
        Role.ASSESS: settings.model_assess,
        Role.INTERVIEW: settings.model_interview,
        Role.ANSWER: settings.model_answer,
        Role.RISK: settings.model_risk,
    }
    models = {role: name or settings.model for role, name in own.items()}
    lacking = [role.value for role, name in models.items() if not name]
    if lacking:
        raise SettingsError(f"RAISE_MODEL: name a model (there is none for {lacking[0]})")
    if settings.model_embed:
        models[Role.EMBED] = settings.model_embed
    key = settings.model_api_key.get_secret_value() if settings.model_api_key else "none"
    return api.Endpoint(
        base_url=settings.model_base_url,
        api_key=key,
        models=models,
        day_tokens=settings.model_day_tokens,
        client=client,
        breaker=None if client is None else api.Breaker(clock=lambda: math.inf),  # a benchmark waits instead
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
