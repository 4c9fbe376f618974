"""What happens beside the crisis card: referrals are counted, and an on-call contact is told where one is set.

Nothing here is waited for. A thread of its own takes what the conversation notes, keeps it in memory while the store
is locked, and tries a webhook and e-mail again until one is delivered or a day has passed. A notice holds a pseudonym,
a level and a time; never a word of what was written.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import queue
import smtplib
import ssl
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from functools import partial
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from bot.errors import SettingsError
from bot.risk.verdict import RiskLevel
from bot.settings import Settings
from policies import retention
from policies.retention import RetentionPolicy
from privacy.store import Store, StoreError, figures, utc_now

AGAIN_AFTER = timedelta(minutes=20)
"""One notice a person and level within this time, unless the earlier one was closed."""
RETRY_AFTER = tuple(timedelta(seconds=s) for s in (5, 30, 120, 600, 3600))
GIVE_UP_AFTER = timedelta(hours=24)
PAUSED = "enrolment_paused"
"""The note under which a pause of enrolment is kept in the store."""
PAUSE_TOLD = "enrolment_pause_told"
"""The note that says since when the pause is that the on-call contact was told of."""
BY_RULE = "program"
"""Who paused enrolment where the stop rule did."""
DRILL = "drill"
"""The level of a notice that only tries whether one arrives."""
MOST_HELD = 10_000
SEND_SECONDS = 10.0

log = logging.getLogger("raise.escalation")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Referral:
    """A crisis referral was shown.

    Attributes:
        person: pseudonym.
        level: of the conversation.
        category: the kind of danger, "unclear" where none was found.
        country: ISO code or "".
        at: aware UTC.
        seconds: from the message to the card.
        is_news: the level rose, or this very message tells of danger now; only then is anybody told.
    """

    person: str
    level: RiskLevel
    category: str
    country: str
    at: datetime
    is_news: bool
    seconds: float = 0.0


class Channel(Protocol):
    """A way to reach the on-call contact."""

    def send(self, notice: dict[str, str]) -> None:
        """Deliver one notice; raises where it was not."""
        ...


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the notice to a place nobody named."""

    def redirect_request(  # noqa: PLR0917 (urllib's own signature)
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        """Never."""


class Webhook:
    """A signed POST: `X-Raise-Signature: sha256=HMAC-SHA256(secret, timestamp + "." + body)`."""

    def __init__(self, url: str, secret: str) -> None:
        self._url, self._secret = url, secret.encode()
        self._opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))

    def send(self, notice: dict[str, str]) -> None:
        """POST it.

        Raises:
            OSError: anything but a 2xx answer.
        """
        body = json.dumps(notice, sort_keys=True).encode()
        stamp = str(int(time.time()))
        signature = hmac.new(self._secret, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        request = urllib.request.Request(  # noqa: S310 (https or loopback, checked in `channels`)
            self._url,
            data=body,
            method="POST",
            headers={
                "content-type": "application/json",
                "x-raise-timestamp": stamp,
                "x-raise-signature": f"sha256={signature}",
            },
        )
        with self._opener.open(request, timeout=SEND_SECONDS):
            pass


class Mail:
    """A short e-mail through an SMTP server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def send(self, notice: dict[str, str]) -> None:
        """Send it.

        Raises:
            OSError: the server cannot be reached or refused it (SMTPException is an OSError).
        """
        given = self._settings
        letter = EmailMessage()
        letter["Subject"] = f"raise-chat: notice {notice['id']}, level {notice['level']}"
        letter["From"], letter["To"] = given.smtp_from or given.on_call_email, given.on_call_email
        letter.set_content(
            "A drill: somebody tries whether notices of this program arrive. Nothing has happened, and there is nothing to do.\n"
            if notice["level"] == DRILL
            else "Enrolment was paused by the study's stop rule: too many notices of imminent danger within 24 hours.\n"
            "Look at /operator; to go on: raise-chat study resume --by NAME --why REASON\n"
            if notice["level"] == "enrolment paused"
            else f"Participant {notice['person']} reached level {notice['level']} at {notice['at']} (UTC).\n"
            "They were shown crisis resources at once. This notice holds nothing they wrote.\n"
            f"To take it on: raise-chat crisis acknowledge {notice['id']} --by NAME --did ACTION\n"
        )
        with smtplib.SMTP(given.smtp_host, given.smtp_port, timeout=SEND_SECONDS) as server:
            if given.smtp_tls:
                server.starttls(context=ssl.create_default_context())
            if given.smtp_user and given.smtp_password:
                server.login(given.smtp_user, given.smtp_password.get_secret_value())
            server.send_message(letter)


def signed(url: str, secret: SecretStr | None, *, name: str, key: str) -> Webhook | None:
    """A webhook whose posts are signed, or None where none is set.

    Raises:
        SettingsError: it would go out unencrypted or unsigned; the message names the setting.
    """
    if not url:
        return None
    parts = urlsplit(url)
    is_loopback = (parts.hostname or "") in ("127.0.0.1", "::1", "localhost")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback):
        raise SettingsError(f"{name}: needs https (http only to this machine)")
    if secret is None:
        raise SettingsError(f"{name} needs {key}, which signs what is sent")
    return Webhook(url, secret.get_secret_value())


def channels(settings: Settings) -> list[Channel]:
    """The ways that are set; none is fine.

    Raises:
        SettingsError: a way is half set, or the webhook would go out unencrypted.
    """
    found: list[Channel] = []
    hook = signed(
        settings.on_call_webhook,
        settings.on_call_secret,
        name="RAISE_ON_CALL_WEBHOOK",
        key="RAISE_ON_CALL_SECRET",
    )
    if hook is not None:
        found.append(hook)
    if settings.on_call_email:
        if not settings.smtp_host:
            raise SettingsError("RAISE_ON_CALL_EMAIL needs RAISE_SMTP_HOST")
        found.append(Mail(settings))
    return found


class Desk:
    """Counts and tells, on a thread of its own. `note` never blocks and never raises."""

    def __init__(
        self,
        directory: Path,
        ways: Sequence[Channel] = (),
        *,
        tell_from: RiskLevel = RiskLevel.IMMINENT,
        clock: Callable[[], datetime] = utc_now,
        pause: float = 5.0,
        rules: RetentionPolicy | None = None,
        keeps_notices: bool = False,
        stop_after: int | None = None,
    ) -> None:
        """Start the thread.

        Args:
            directory: where the store lives.
            ways: how the on-call contact is told.
            tell_from: the lowest level they are told of.
            clock: aware UTC.
            pause: seconds between looks at what is due.
            rules: how long the record of a notice lives; those that ship where None.
            keeps_notices: keep a record of each notice for the operator, though nobody is told (a study).
            stop_after: more imminent notices in 24 hours than this pause enrolment; None for never.
        """
        self._keeps_notices, self._stop_after = keeps_notices, stop_after
        self._pause_at, self._pause_told = "", ""
        self._pause_due, self._pause_tries = datetime.min.replace(tzinfo=UTC), 0
        self._directory, self._ways, self._tell_from = directory, ways, tell_from
        self._clock, self._pause = clock, pause
        self._rules = rules or retention.shipped()
        self._inbox: queue.SimpleQueue[Referral | None] = queue.SimpleQueue()
        self._held: deque[Referral] = deque(maxlen=MOST_HELD)
        self._store: Store | None = None
        self._through: Callable[[Callable[[Store], Any]], Any] | None = None
        self._noted: Callable[[str, bool, int], None] = lambda _level, _told, _milliseconds: None
        self._paused: Callable[[], None] = lambda: None
        self._erased: Callable[[str], bool] = lambda _: False
        self._ended = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="escalation")
        self._thread.start()

    def write_through(
        self,
        call: Callable[[Callable[[Store], Any]], Any],
        noted: Callable[[str, bool, int], None],
        paused: Callable[[], None] = lambda: None,
        erased: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Use the store of somebody who has it open, so that one thread of a process writes; what it raises is tried again.

        Args:
            call: does something with the store, in its thread.
            noted: logs, in that thread, that a referral of a level was shown, whether somebody is told, after how many ms.
            paused: logs, in that thread, that enrolment was paused.
            erased: whether somebody was erased meanwhile: a notice then stands without their code.
        """
        self._through, self._noted, self._paused, self._erased = call, noted, paused, erased

    def note(self, referral: Referral) -> None:
        """A referral was shown."""
        self._inbox.put(referral)

    def close(self, within: float = 5.0) -> None:
        """Write what is held, try what is due once more, and end."""
        self._inbox.put(None)
        self._thread.join(within)

    def _work(self) -> None:
        while not self._ended:
            with contextlib.suppress(queue.Empty):
                found = self._inbox.get(timeout=self._pause)
                while True:
                    if found is None:
                        self._ended = True
                    else:
                        self._held.append(found)
                    found = self._inbox.get_nowait()
            try:
                self._write()
                self._send()
            except Exception as failed:  # noqa: BLE001 (it is tried again; what is held stays held)
                log.error("on-call desk: %s", type(failed).__name__)
        if self._store is not None:
            self._store.close()

    def _call(self, work: Callable[[Store], _Result]) -> _Result:
        """Something done with the store."""
        if self._through is not None:
            done: _Result = self._through(work)
            return done
        if self._store is None:
            self._store = Store(self._directory)
        return work(self._store)

    def _write(self) -> None:
        while self._held:
            referral = self._held[0]
            try:
                self._call(partial(self._note, referral=referral))
            except StoreError:
                raise
            except Exception as failed:  # noqa: BLE001 (locked or full: held until it can be written)
                log.error("store not ready: %s; %d referrals held", type(failed).__name__, len(self._held))
                return
            self._held.popleft()

    def _note(self, store: Store, referral: Referral) -> None:
        made = None
        if (
            referral.is_news
            and (self._ways or self._keeps_notices)
            and referral.level.rank >= self._tell_from.rank
        ):
            made = store.open_escalation(
                person="erased" if self._erased(referral.person) else referral.person,
                level=referral.level.value,
                at=referral.at,
                again_after=AGAIN_AFTER,
                until=self._rules.until("escalation", referral.at),
            )
        store.count_referral(
            month=referral.at.strftime("%Y-%m"),
            level=referral.level.value,
            category=referral.category,
            country=referral.country,
        )
        self._noted(
            referral.level.value, made is not None and bool(self._ways), round(referral.seconds * 1000)
        )
        if referral.is_news and referral.level is RiskLevel.IMMINENT:
            self._stopped(store, referral.at)

    def _stopped(self, store: Store, at: datetime) -> None:
        """Too much danger within a day: nobody new is taken on until somebody has looked."""
        if self._stop_after is None or figures.imminent(store, at) <= self._stop_after:
            return
        why = f"stop rule: more than {self._stop_after} notices of imminent danger in 24 hours"
        if store.own(PAUSED) is None:
            store.set_own(PAUSED, json.dumps({"at": at.isoformat(), "why": why, "by": BY_RULE}))
            self._paused()

    def _send(self) -> None:
        if not self._ways:
            return
        now = self._clock()
        for row in self._call(lambda store: store.due(now)):
            notice = {
                "id": str(row["id"]),
                "person": row["person"],
                "level": row["level"],
                "at": row["raised_at"],
            }
            delivered = [way for way in self._ways if self._delivered(way, notice)]
            late = now - datetime.fromisoformat(row["raised_at"]) > GIVE_UP_AFTER
            again = None
            if not delivered and not late:
                again = now + RETRY_AFTER[min(row["attempts"], len(RETRY_AFTER) - 1)]
            tried = partial(
                Store.tried, number=row["id"], delivered_at=now if delivered else None, next_try=again
            )
            self._call(tried)
        self._tell_of_pause(now)

    def _tell_of_pause(self, now: datetime) -> None:
        """Once, after restarts too, for as long as enrolment is paused by the rule."""
        paused = json.loads(self._call(lambda store: store.own(PAUSED)) or "{}")
        if paused.get("by") != BY_RULE or paused["at"] == self._pause_told:
            return
        if paused["at"] != self._pause_at:
            self._pause_at, self._pause_due, self._pause_tries = paused["at"], now, 0
        if timedelta() < self._pause_due - now <= RETRY_AFTER[-1]:  # longer: the clock was set back
            return
        if self._call(lambda store: store.own(PAUSE_TOLD)) == paused["at"]:
            self._pause_told = paused["at"]
            return
        self._pause_due = now + RETRY_AFTER[min(self._pause_tries, len(RETRY_AFTER) - 1)]
        self._pause_tries += 1
        notice = {"id": "0", "person": "nobody", "level": "enrolment paused", "at": paused["at"]}
        delivered = [way for way in self._ways if self._delivered(way, notice)]
        if delivered:
            self._pause_told = paused["at"]
            self._call(lambda store: store.set_own(PAUSE_TOLD, paused["at"]))

    @staticmethod
    def _delivered(way: Channel, notice: dict[str, Any]) -> bool:
        try:
            way.send(notice)
        except Exception as failed:  # noqa: BLE001 (retried; the kind of failure is enough for the log)
            log.error("on-call notice not delivered: %s", type(failed).__name__)
            return False
        return True
