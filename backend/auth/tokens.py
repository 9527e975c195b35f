"""The text form of an API token: ``plait_<random>_<checksum>``.

The prefix lets secret scanners find a leaked token, and the checksum lets them and us reject a
mistyped one without asking the database.
"""

from __future__ import annotations

import secrets
import zlib

PREFIX = "plait"
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
RANDOM_LENGTH = 32  # 62^32 is 190 bits
CHECKSUM_LENGTH = 6  # 62^6 exceeds 2^32
HINT_LENGTH = 4


def generate() -> str:
    """A new token."""
    random = random_text(RANDOM_LENGTH)
    return f"{PREFIX}_{random}_{_checksum(random)}"


def random_text(length: int) -> str:
    """Letters and digits, each worth 5.95 bits."""
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def is_well_formed(token: str) -> bool:
    """Whether ``generate`` could have made this."""
    prefix, _, rest = token.partition("_")
    random, _, checksum = rest.partition("_")
    return (
        prefix == PREFIX
        and len(random) == RANDOM_LENGTH
        and random.isascii()
        and checksum == _checksum(random)
    )


def hint(token: str) -> str:
    """The last characters of the random part, so that a person can tell tokens apart."""
    return token.split("_")[1][-HINT_LENGTH:]


def _checksum(random: str) -> str:
    number, digits = zlib.crc32(random.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
