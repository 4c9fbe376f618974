"""An answer that a person corrects on the page of their data, read like one given in the chat."""

from __future__ import annotations

from bot.aside import aside
from bot.interview import Reader
from bot.parts import Parts
from policies import encoder
from policies.attributes import Answer, Attribute, Profile, Standing
from privacy.placeholders import Placeholders


async def corrected(parts: Parts, attribute: Attribute, text: str, places: Placeholders) -> Answer:
    """The answer as it is to be held: without personal data, with the bands that can be read from it.

    Raises:
        RedactionFailed: it could not be made safe.
    """
    at = parts.clock()
    safe = text
    if parts.detector is not None:
        safe = places.apply(text, (await parts.detector.redact(text)).spans)
    brain = encoder.built_in()

    def read() -> Answer:
        found = Reader(brain).read(safe, brain.encode([safe])[0], at=at, pending=attribute, profile=Profile())
        known = found.facts.get(attribute)
        if known is not None and known.standing is Standing.KNOWN:
            return known
        return Answer(standing=Standing.KNOWN, at=at, text=safe[:160])

    return await aside(read)
