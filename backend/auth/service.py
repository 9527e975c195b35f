"""Tokens, login links and browser sessions.

Written for a synchronous session, because the command line uses it too; the API calls it through
``AsyncSession.run_sync``. The caller commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import delete
from sqlalchemy.orm import Session

from backend.auth import repository, tokens
from backend.auth.scopes import Scope
from backend.auth.secrets import Digester, digester
from backend.db.tables import ApiToken, BrowserSession, LoginLink
from backend.settings import Settings

CODE_LENGTH = 32


def issue_token(
    session: Session,
    digest: Digester,
    *,
    name: str,
    scopes: Iterable[str],
    expires_in_days: int | None = None,
) -> tuple[ApiToken, str]:
    """A new token's row and its text, which cannot be had again. Raises ValueError for a scope
    that does not exist."""
    text = tokens.generate()
    now = datetime.now(UTC)
    row = ApiToken(
        id=uuid4(),
        name=name,
        hint=tokens.hint(text),
        digest=digest(text),
        scopes=sorted({Scope(scope).value for scope in scopes}),
        created_at=now,
        expires_at=now + timedelta(days=expires_in_days) if expires_in_days else None,
    )
    session.add(row)
    session.flush()
    return row, text


def create_token(
    session: Session,
    settings: Settings,
    *,
    name: str,
    scopes: Iterable[str],
    expires_in_days: int | None = None,
) -> str:
    """The text of a new token. Raises ValueError for a scope that does not exist."""
    _, text = issue_token(
        session, digester(settings), name=name, scopes=scopes, expires_in_days=expires_in_days
    )
    return text


def token_is_valid(session: Session, settings: Settings, token: str) -> bool:
    """Whether the API would accept ``token`` now."""
    if not tokens.is_well_formed(token):
        return False
    presented = {"digest": digester(settings)(token)}
    return session.execute(repository.live_token(), presented).first() is not None


def list_tokens(session: Session) -> Sequence[ApiToken]:
    """Every token, newest first, the revoked ones included."""
    return session.scalars(repository.all_tokens()).all()


def revoke_token(session: Session, identifier: UUID) -> ApiToken | None:
    """End a token for good; None if there is no such token. Revoking twice changes nothing."""
    token = session.get(ApiToken, identifier, with_for_update=True)
    if token is not None and token.revoked_at is None:
        token.revoked_at = datetime.now(UTC)
        session.flush()
    return token


def create_login_link(
    session: Session, settings: Settings, url: str, scopes: Iterable[str] = (Scope.ADMIN,)
) -> str:
    """A link to the service at ``url`` that turns into a browser session, once."""
    code = tokens.random_text(CODE_LENGTH)
    now = datetime.now(UTC)
    for statement in repository.expired():
        session.execute(statement)
    session.add(
        LoginLink(
            digest=digester(settings)(code),
            scopes=sorted({Scope(scope).value for scope in scopes}),
            created_at=now,
            expires_at=now + timedelta(minutes=settings.login_link_minutes),
        )
    )
    session.flush()
    return f"{url.rstrip('/')}/login?code={code}"


def log_in(session: Session, settings: Settings, digest: Digester, code: str) -> str | None:
    """Spend a login link's code on a new session's secret; None if it was spent or has expired."""
    scopes = session.scalars(repository.spend_login_link(digest(code))).one_or_none()
    if scopes is None:
        return None
    secret = tokens.random_text(CODE_LENGTH)
    now = datetime.now(UTC)
    session.add(
        BrowserSession(
            digest=digest(secret),
            scopes=scopes,
            created_at=now,
            expires_at=now + timedelta(hours=settings.session_hours),
        )
    )
    session.flush()
    return secret


def log_out(session: Session, digest: bytes) -> None:
    """End the browser session with this digest."""
    session.execute(delete(BrowserSession).where(BrowserSession.digest == digest))
