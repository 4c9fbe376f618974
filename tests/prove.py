"""What is too heavy for every run; the last result is in docs/proofs.md.

usage: python -m tests.prove                 (make prove)

Thousands of random conversations through the pure dialogue, and hundreds through the whole door, checked for what
must always hold.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time

from bot.conversation import Conversation
from bot.parts import build_parts
from bot.risk.verdict import RiskLevel
from policies import thresholds
from policies.planning.starter import starter_entries

ANSWERS = [
    "no, never", "I'd rather not say", "ashamed", "why do you ask?", "just answer", "34", "nurse on nights", "in debt", "hi", "thanks",
    "asdfgh qwerty", "actually I'm 41", "that's wrong", "are you human?", "16", "help", "different question: how do I cite a book?",
    "I am going to kill myself tonight", "just kidding", "UK", "I'm safe now", "my brother is with me", "they didn't pick up",
]  # fmt: skip


async def talk(seed: int, parts: object, turns: int = 12) -> tuple[int, int]:
    rng = random.Random(seed)
    entries = starter_entries()
    conversation = Conversation.start(parts, seed=seed)  # type: ignore[arg-type]
    asks = 0
    for _ in range(turns):
        text = rng.choice(entries).query if rng.random() < 0.3 else rng.choice(ANSWERS)
        moves = [w async for w in conversation.receive(text)]
        session = conversation.session
        assert moves, "a turn without a word"
        for words in moves:
            assert words.text.strip()
            asks += words.move == "ask"
            if words.move == "abstain":
                assert words.resources and words.fields["reason"]
            if words.move == "answer":
                assert len(words.text.split()) <= 260, len(words.text.split())
        if session.risk.level is RiskLevel.IMMINENT:
            assert not any(w.move in ("ask", "answer") for w in moves)
        if session.topic:
            assert len(session.topic.asked) <= thresholds.shipped().most_questions
    return asks, turns


async def main(count: int) -> None:
    parts = build_parts()
    began, asks, turns = time.time(), 0, 0
    for seed in range(count):
        a, t = await talk(seed, parts)
        asks, turns = asks + a, turns + t
        if (seed + 1) % 100 == 0:
            rate = turns / (time.time() - began)
            print(
                f"{seed + 1}/{count} conversations, {turns} turns, {asks} questions, {rate:.0f} turns a second",
                flush=True,
            )
    print(
        f"held: {count} conversations of random turns, {turns} turns, {asks} questions, in {time.time() - began:.0f} s"
    )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
