"""Typed settings from the environment (prefix ``PLAIT_``); unsafe values are refused."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Settings(BaseSettings):
    """Every knob of the service. ``local`` mode is one person's machine, ``server`` is shared.

    ``DATABASE_URL`` and ``REDIS_URL`` are also read without the prefix, as hosts commonly set them.
    """

    model_config = SettingsConfigDict(env_prefix="PLAIT_", populate_by_name=True, extra="ignore")

    mode: Literal["local", "server"] = "local"
    home: Path = Field(default_factory=lambda: Path.home() / ".plait")
    database_url: SecretStr = Field(
        default=SecretStr(""), validation_alias="DATABASE_URL", description="postgresql:// URL"
    )
    redis_url: SecretStr = Field(default=SecretStr(""), validation_alias="REDIS_URL")
    storage_url: str = Field(default="", description="fsspec URL; empty is <home>/storage")
    secret_key: SecretStr = Field(default=SecretStr(""), description="keys the tokens' HMAC")

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=1, le=65535)
    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    secure_cookies: bool = False

    max_upload_bytes: int = Field(default=2 * 1024**3, ge=1024)
    session_hours: int = Field(default=24 * 14, ge=1)
    login_link_minutes: int = Field(default=60, ge=1)

    device_kinds: tuple[str, ...] = Field(
        default=("cpu", "cuda", "sim"), description="the kinds of devices that a worker offers"
    )
    quiet_seconds: float = Field(
        default=60.0, ge=0, description="how long a job waits for a busy machine to become quiet"
    )
    allow_noise: bool = Field(
        default=False, description="measure on a busy machine all the same, in every job"
    )
    lease_seconds: float = Field(default=15.0, gt=0)
    heartbeat_seconds: float = Field(default=1.0, gt=0)
    sweep_seconds: float = Field(default=5.0, gt=0)
    max_attempts: int = Field(default=3, ge=1)
    cancel_grace_seconds: float = Field(default=5.0, ge=0)
    job_memory_bytes: int = Field(default=16 * 1024**3, ge=512 * 1024**2)
    import_memory_bytes: int = Field(default=8 * 1024**3, ge=512 * 1024**2)
    import_seconds: int = Field(default=300, ge=1)

    @property
    def broker_url(self) -> str:
        """``redis_url`` as Celery spells it, which has its own scheme for a Unix socket."""
        url = self.redis_url.get_secret_value()
        return f"redis+socket://{url[7:]}" if url.startswith("unix://") else url

    @model_validator(mode="after")
    def _refuse_unsafe(self) -> Self:
        if not self.storage_url:
            self.storage_url = f"file://{self.home.absolute() / 'storage'}"
        if self.heartbeat_seconds * 3 > self.lease_seconds:
            raise ValueError("lease_seconds must be at least three heartbeats")
        if self.mode == "local":
            if self.host not in LOOPBACK:
                raise ValueError(
                    f"local mode binds to loopback only, not {self.host!r}; set PLAIT_MODE=server"
                )
            return self
        if len(self.secret_key.get_secret_value()) < 32:
            raise ValueError("server mode needs PLAIT_SECRET_KEY of at least 32 characters")
        if not self.secure_cookies:
            raise ValueError("server mode needs PLAIT_SECURE_COOKIES=true (serve over HTTPS)")
        if "*" in self.allowed_hosts:
            raise ValueError("server mode needs PLAIT_ALLOWED_HOSTS to name its hosts, not '*'")
        return self


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """The process's settings, read once."""
    return Settings()
