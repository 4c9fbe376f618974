"""The two ends of a call: a server that speaks the protocol and fails as it is told, and the client in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bot.models.openai_api import Endpoint
from bot.models.usage import SPEAKING
from tests.models.server import ModelServer


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    made = ModelServer()
    yield made
    made.close()


@pytest.fixture
async def endpoint(server: ModelServer) -> AsyncIterator[Endpoint]:
    made = Endpoint(base_url=server.url, api_key="none", models=dict.fromkeys(SPEAKING, "m"))
    yield made
    await made.close()
