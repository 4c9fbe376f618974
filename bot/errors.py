"""What can go wrong in a conversation.

BotError
├── SettingsError       a RAISE_… setting is wrong; the message names it
└── ModelUnavailable    a model cannot speak now; the conversation falls back or abstains
"""

from __future__ import annotations


class BotError(Exception):
    """Base of everything `bot` raises."""


class SettingsError(BotError):
    """A setting is missing or wrong; the message names it and the remedy, never a secret."""


class ModelUnavailable(BotError):
    """A model cannot speak now; the message carries no content."""
