"""Codes, PINs and passwords: made at random, shown once, kept as a slow salted hash (Argon2id, RFC 9106).

A participant's hash is made with a pepper of their own, which lies in `keys.db` and is destroyed with their key: whoever
steals the study's database alone cannot try PINs against it. The parameters are OWASP's for Argon2id (19 MiB, 2 passes).
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from functools import lru_cache
from hashlib import sha256

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without those that are taken for one another."""
PIN_DIGITS = 8
MEMORY_KIB, PASSES, LANES = 19 * 1024, 2, 1
LONGEST = 200
NOBODYS = b"nobody's pepper"
"""Of staff, who have no key of their own."""


def new_code() -> str:
    """A pseudonym that can be typed on a phone: two groups of four."""
    made = "".join(secrets.choice(LETTERS) for _ in range(8))
    return f"{made[:4]}-{made[4:]}"


def new_pin() -> str:
    """Eight digits in two groups."""
    made = "".join(str(secrets.randbelow(10)) for _ in range(PIN_DIGITS))
    return f"{made[:4]} {made[4:]}"


def new_password() -> str:
    """Twenty letters in groups of five, for staff."""
    made = "".join(secrets.choice(LETTERS) for _ in range(20))
    return "-".join(made[i : i + 5] for i in range(0, 20, 5))


def tidy_code(text: str) -> str:
    """A code as it was made, however it was typed."""
    bare = re.sub(r"[^a-z0-9]", "", text[:LONGEST].lower())
    return f"{bare[:4]}-{bare[4:]}" if len(bare) == 8 else bare


def tidy_pin(text: str) -> str:
    """A PIN or password without what people put between its groups."""
    return re.sub(r"[\s-]", "", text[:LONGEST]).lower()


def hashed(secret: str, pepper: bytes = NOBODYS) -> str:
    """The hash of a PIN or password, in PHC form, salted."""
    return Argon2id(
        salt=os.urandom(16), length=32, iterations=PASSES, lanes=LANES, memory_cost=MEMORY_KIB
    ).derive_phc_encoded(_peppered(secret, pepper))


def matches(secret: str, kept: str, pepper: bytes = NOBODYS) -> bool:
    """Whether it is the one that was hashed; takes as long where it is not."""
    try:
        Argon2id.verify_phc_encoded(_peppered(secret, pepper), kept)
    except (InvalidKey, ValueError):
        return False
    return True


def verify(secret: str, found: tuple[str, bytes] | None) -> bool:
    """Whether it is the PIN or password of this hash and pepper; takes as long where there is none.

    Slow by design: call it where nobody else waits.
    """
    if found is None:
        matches(secret, _decoy())
        return False
    return matches(secret, *found)


@lru_cache(maxsize=1)
def _decoy() -> str:
    return hashed(new_pin())


def _peppered(secret: str, pepper: bytes) -> bytes:
    return hmac.new(pepper, tidy_pin(secret).encode(), sha256).digest()
