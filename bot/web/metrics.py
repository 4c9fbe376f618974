"""`/metrics`: counts in Prometheus' format. No text, no pseudonym, no label that a person could be found by."""

from __future__ import annotations

import ipaddress
import shutil
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request

from bot.escalation import PAUSED
from bot.keeping import Keeping
from bot.models.usage import Role
from privacy.retention import reports
from privacy.store import figures

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


Gauges = dict[tuple[str, str], float]
"""By name and what it means."""


def gauges(keeping: Keeping) -> Gauges:
    """Numbers of the deployment, in the store's thread; nobody in particular."""
    now, store = keeping.now(), keeping.store
    swept = next((r for r in reports(store, most=5) if r.finished_at), None)
    notices = store.escalations(open_only=True, at=now)
    enrolled = figures.enrolled(store, now)
    found: Gauges = {
        ("raise_kept_conversations", "Conversations kept"): figures.kept(store, now)["conversations"],
        ("raise_kept_messages", "Messages kept"): figures.kept(store, now)["messages"],
        ("raise_notices_open", "Notices to the on-call contact that are not closed"): len(notices),
        ("raise_notices_unacknowledged", "Notices that nobody has taken on"): sum(
            not row["acknowledged_at"] for row in notices
        ),
        ("raise_participants", "Participants enrolled"): enrolled["all"],
        ("raise_participants_came", "Participants who have signed in"): enrolled["came"],
        ("raise_enrolment_paused", "1 while nobody new is taken on"): store.own(PAUSED) is not None,
        ("raise_disk_free_bytes", "Free on the disk of the data"): shutil.disk_usage(keeping.directory).free,
    }
    if swept is not None and swept.finished_at:
        at = datetime.fromisoformat(swept.finished_at).timestamp()
        found["raise_last_purge_timestamp_seconds", "When the last purge ended"] = at
    return found


class _Counts(Collector):
    def __init__(self, endpoint: Endpoint | None, found: Gauges) -> None:
        self._endpoint, self._gauges = endpoint, found

    def collect(self) -> Iterator[Metric]:
        for (name, meaning), value in self._gauges.items():
            yield GaugeMetricFamily(name, meaning, value=float(value))
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


def page(endpoint: Endpoint | None, found: Gauges) -> bytes:
    """The counts as a monitor reads them."""
    registry = CollectorRegistry()
    registry.register(_Counts(endpoint, found))
    return generate_latest(registry)
