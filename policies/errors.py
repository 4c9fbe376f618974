"""What can go wrong with policy files.

PolicyError
├── PolicyFileError     a file that ships or is configured is missing, malformed or contradicts itself
└── EncoderError        the sentence encoder's files are absent or not the ones we know
"""

from __future__ import annotations


class PolicyError(Exception):
    """Base of everything `policies` raises."""


class PolicyFileError(PolicyError):
    """A policy file cannot be used; the message names the file, the entry and the remedy."""


class EncoderError(PolicyError):
    """The sentence encoder cannot be used; the message names the file and the remedy."""
