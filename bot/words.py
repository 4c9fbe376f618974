"""Every text we ship that a person can read, with where it stands: for the wording check and its test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from bot.messages import crisis_texts, messages
from policies import guidance, questions
from policies.attributes import Attribute
from policies.crisis import cards


def shipped_texts() -> Iterator[tuple[str, str]]:
    """(where, text) of each."""
    for key, text in messages().items():
        yield f"bot/messages/en.yaml: {key}", text
    for key, text in crisis_texts().items():
        yield f"policies/crisis/texts.en.yaml: {key}", text
    for card in cards.shipped().values():
        yield f"policies/crisis/cards.yaml: {card.language} imminent", card.imminent
        yield f"policies/crisis/cards.yaml: {card.language} elevated", card.elevated
    for block in guidance.shipped().all_blocks():
        yield f"policies/guidance: {block.id}", block.text
    for (domain, name), group in guidance.shipped().groups.items():
        for part in (*group.acknowledge, group.would_change):
            yield f"policies/guidance: {domain.value}/{name}", part
    for name, human in guidance.shipped().humans.items():
        yield f"policies/guidance/humans: {name}", f"{human.label}. {human.how}"
    asked = questions.shipped()
    for attribute in Attribute:
        for question in asked.every(attribute):
            for part in (
                *question.phrasings,
                question.why,
                question.declined,
                *(c.label for c in question.choices),
            ):
                yield f"policies/questions.yaml: {attribute.value}", part
    folder = Path(str(resources.files("bot"))) / "web" / "templates"
    for path in sorted(folder.glob("*.html")):
        yield (
            f"bot/web/templates/{path.name}",
            re.sub(r"<[^>]+>|{[%{].*?[%}]}", " ", path.read_text(encoding="utf-8")),
        )
    prompts = Path(str(resources.files("bot"))) / "prompts"
    for path in sorted(prompts.glob("*.md")) if prompts.is_dir() else ():
        yield f"bot/prompts/{path.name}", path.read_text(encoding="utf-8")
