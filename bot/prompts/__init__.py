"""The chat's prompts."""

from __future__ import annotations

from policies.prompts import Prompt, read_prompt


def prompt(name: str) -> Prompt:
    """A prompt of the chat by name.

    Raises:
        PolicyFileError: there is none, or its head is malformed.
    """
    return read_prompt("bot", name)


__all__ = ["Prompt", "prompt"]
