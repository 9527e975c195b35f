"""Statements on tokens, login links and sessions, for synchronous and asynchronous sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Delete,
    Select,
    Update,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.dml import ReturningDelete

from backend.db.tables import ApiToken, BrowserSession, LoginLink

USE_RESOLUTION = timedelta(minutes=1)  # "last used" is not worth a write for every request


@lru_cache(maxsize=1)
def live_token() -> Select[UUID, list[str], datetime | None]:
    """The token with the digest ``digest``, a parameter, if it is neither revoked nor expired.
    Built once, as every request executes it."""
    return select(ApiToken.id, ApiToken.scopes, ApiToken.last_used_at).where(
        ApiToken.digest == bindparam("digest"),
        ApiToken.revoked_at.is_(None),
        or_(ApiToken.expires_at.is_(None), ApiToken.expires_at > func.now()),
    )


@lru_cache(maxsize=1)
def live_session() -> Select[list[str], datetime | None]:
    """The session with the digest ``digest``, a parameter, if it has not expired."""
    return select(BrowserSession.scopes, BrowserSession.last_used_at).where(
        BrowserSession.digest == bindparam("digest"), BrowserSession.expires_at > func.now()
    )


def touch_token(identifier: UUID) -> Update:
    """Note that the token was used, unless that was noted a moment ago."""
    return (
        update(ApiToken)
        .where(ApiToken.id == identifier, _stale(ApiToken.last_used_at))
        .values(last_used_at=func.now())
    )


def touch_session(digest: bytes) -> Update:
    """Note that the session was used, unless that was noted a moment ago."""
    return (
        update(BrowserSession)
        .where(BrowserSession.digest == digest, _stale(BrowserSession.last_used_at))
        .values(last_used_at=func.now())
    )


def all_tokens() -> Select[ApiToken]:
    """Every token, newest first, the revoked ones included."""
    return select(ApiToken).order_by(ApiToken.created_at.desc(), ApiToken.id)


def spend_login_link(digest: bytes) -> ReturningDelete[list[str]]:
    """Remove the link and return its scopes: of two who try at once, one gets a row."""
    return (
        delete(LoginLink)
        .where(LoginLink.digest == digest, LoginLink.expires_at > func.now())
        .returning(LoginLink.scopes)
    )


def expired() -> tuple[Delete, Delete]:
    """Remove what nobody can use any more."""
    return (
        delete(LoginLink).where(LoginLink.expires_at <= func.now()),
        delete(BrowserSession).where(BrowserSession.expires_at <= func.now()),
    )


def is_stale(last_used_at: datetime | None) -> bool:
    """Whether a use is worth noting; saves the statement for most requests."""
    return last_used_at is None or last_used_at < datetime.now(UTC) - USE_RESOLUTION


def _stale(column: InstrumentedAttribute[datetime | None]) -> ColumnElement[bool]:
    return or_(column.is_(None), column < func.now() - USE_RESOLUTION)
