"""The secret that keys every HMAC, and what is derived from it."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from backend.settings import Settings

SECRET_FILE = "secret-key"  # noqa: S105  # a file's name
SECRET_BYTES = 32


class Digester:
    """Turns a presented secret into what the database knows of it.

    A stolen database gives no token away, and without the key cannot even be searched.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, secret: str) -> bytes:
        return hmac.new(self._key, secret.encode(), hashlib.sha256).digest()


def digester(settings: Settings) -> Digester:
    """Keyed by PLAIT_SECRET_KEY; in local mode by default by a private file under home."""
    configured = settings.secret_key.get_secret_value()
    key = configured.encode() if configured else _local_secret(settings.home / SECRET_FILE)
    return Digester(key)


def _local_secret(path: Path) -> bytes:
    """The file's content; made on first use. Safe when several processes start at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    if not path.exists():
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(SECRET_BYTES))
            os.link(scratch, path)  # unlike a rename, never replaces another process's secret
        except FileExistsError:
            pass  # that process's secret is as good
        finally:
            scratch.unlink()
    secret = path.read_text().strip()
    if len(secret) < SECRET_BYTES:
        raise ValueError(f"{path} is damaged; delete it, and make new tokens and login links")
    return secret.encode()
