"""What can go wrong in `privacy`: every message names a record and a remedy, never a content.

PrivacyError
├── RedactionFailed     a text could not be made safe: it is neither stored nor sent
├── ConsentMissing      there is no grant for what was to be done
├── KeysUnusable        a key is missing, can be read by others, or opens nothing here
├── SealBroken          a sealed value is not what it should be
├── StoreError          the store cannot be opened or used
└── AuditBroken         the audit log cannot be written or does not verify
"""

from __future__ import annotations


class PrivacyError(Exception):
    """Anything below; carries no content."""


class RedactionFailed(PrivacyError):
    """A text could not be made safe in time: it is neither stored nor sent."""


class ConsentMissing(PrivacyError):
    """There is no grant in force for what was to be done."""


class KeysUnusable(PrivacyError):
    """A key is missing, can be read by others, or opens nothing here."""


class SealBroken(PrivacyError):
    """A sealed value is cut, foreign, or belongs to another subject or field; the record is named."""


class StoreError(PrivacyError):
    """The store cannot be opened or used; the message names the file and what to do, never its content."""


class AuditBroken(PrivacyError):
    """The audit log cannot be written, or does not verify; the place is named."""
