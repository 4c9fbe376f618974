"""`/metrics`: counts in Prometheus' format. No text, no pseudonym, no label that a person could be found by."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request

from bot.models.usage import Role

if TYPE_CHECKING:
    from bot.models.openai_api import Endpoint

MEDIA_TYPE = CONTENT_TYPE_LATEST


def may_see(request: Request) -> bool:
    """Whether the request comes from this machine itself, not through a proxy on it."""
    if {"x-forwarded-for", "forwarded", "x-real-ip"} & set(request.headers):
        return False
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


class _Counts(Collector):
    def __init__(self, endpoint: Endpoint | None, visitors: int) -> None:
        self._endpoint, self._visitors = endpoint, visitors

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("raise_visitors", "Conversations held in memory", value=self._visitors)
        if self._endpoint is None:
            return
        calls = CounterMetricFamily("raise_model_calls", "Calls to the outside model", labels=["role"])
        tokens = CounterMetricFamily("raise_model_tokens", "Tokens it took", labels=["role", "direction"])
        seconds = CounterMetricFamily("raise_model_seconds", "Seconds it took", labels=["role"])
        failures = CounterMetricFamily(
            "raise_model_failures", "Calls without an answer", labels=["role", "kind"]
        )
        for role in Role:
            usage = self._endpoint.usage[role]
            calls.add_metric([role.value], usage.calls)
            tokens.add_metric([role.value, "in"], usage.prompt_tokens)
            tokens.add_metric([role.value, "out"], usage.completion_tokens)
            seconds.add_metric([role.value], usage.seconds)
        for (role, kind), count in self._endpoint.failed.items():
            failures.add_metric([role.value, kind.value], count)
        yield from (calls, tokens, seconds, failures)


def page(endpoint: Endpoint | None, visitors: int) -> bytes:
    """The counts as a monitor reads them."""
    registry = CollectorRegistry()
    registry.register(_Counts(endpoint, visitors))
    return generate_latest(registry)
