"""Wire forms of tokens and sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from backend.auth.scopes import Scope


class TokenCreate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
    scopes: Annotated[list[Scope], Field(min_length=1)]
    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = None

    @field_validator("scopes")
    @classmethod
    def _unique(cls, scopes: list[Scope]) -> list[Scope]:
        return sorted(set(scopes))


class TokenRead(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: UUID
    name: str
    hint: str
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class TokenCreated(TokenRead):
    """``token`` is shown this once; only its HMAC is stored."""

    token: str


class SessionRead(BaseModel):
    """Who is asking. ``scopes`` includes the implied ones."""

    scopes: list[Scope]
    authenticated_by: Literal["token", "session"]
