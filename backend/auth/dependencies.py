"""Who is asking, and whether they may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from fastapi import Request, Security
from fastapi.security import (
    APIKeyCookie,
    HTTPAuthorizationCredentials,
    HTTPBearer,
    SecurityScopes,
)

from backend.auth import repository, tokens
from backend.auth.cookie import COOKIE, session_secret
from backend.auth.scopes import Scope, expand
from backend.problems import ForbiddenError, UnauthorizedError
from backend.services import Services, ServicesDep

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_bearer = HTTPBearer(auto_error=False, description="An API token: `plait token create`.")
_cookie = APIKeyCookie(name=COOKIE, auto_error=False, description="Set by a one-time login link.")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking. ``key`` tells one token or session from another and is no secret."""

    key: str
    scopes: frozenset[Scope]
    authenticated_by: Literal["token", "session"]
    session_digest: bytes | None = None

    def require(self, *scopes: Scope) -> None:
        """Raises ForbiddenError naming the first scope that is missing."""
        for scope in scopes:
            if scope not in self.scopes:
                raise ForbiddenError(
                    f"this needs the scope {scope.value!r}; the {self.authenticated_by} has "
                    f"{', '.join(sorted(self.scopes)) or 'none'}"
                )


async def authenticate(
    request: Request,
    services: ServicesDep,
    needed: SecurityScopes,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    _: Annotated[str | None, Security(_cookie)],
) -> Principal:
    """A bearer token counts before a session. Raises UnauthorizedError or ForbiddenError."""
    if bearer is not None:
        principal = await _by_token(services, bearer.credentials)
    else:
        principal = await _by_session(services, request)
    principal.require(*map(Scope, needed.scopes))
    return principal


async def _by_token(services: Services, token: str) -> Principal:
    if not tokens.is_well_formed(token):
        raise UnauthorizedError("the bearer token is not a Plait token; was it copied whole?")
    async with services.autocommit.connect() as connection:
        digest = services.digest(token)
        found = (await connection.execute(repository.live_token(), {"digest": digest})).first()
        if found is None:
            raise UnauthorizedError("the token is unknown, revoked or expired; make a new one")
        if repository.is_stale(found.last_used_at):
            await connection.execute(repository.touch_token(found.id))
    return Principal(f"token:{found.id}", expand(found.scopes), "token")


async def _by_session(services: Services, request: Request) -> Principal:
    secret = session_secret(request, services.settings)
    if secret is None:
        raise UnauthorizedError("send an API token as bearer, or log in with `plait login`")
    digest = services.digest(secret)
    async with services.autocommit.connect() as connection:
        found = (await connection.execute(repository.live_session(), {"digest": digest})).first()
        if found is None:
            raise UnauthorizedError("the session has ended; `plait login` prints a new link")
        if repository.is_stale(found.last_used_at):
            await connection.execute(repository.touch_session(digest))
    if request.method not in SAFE_METHODS and not is_same_origin(request):
        raise ForbiddenError(
            "a write with a browser session must come from Plait's own pages (Origin); use an API "
            "token elsewhere"
        )
    return Principal(f"session:{digest.hex()[:16]}", expand(found.scopes), "session", digest)


def is_same_origin(request: Request) -> bool:
    """Whether the browser says that one of our own pages sent this.

    ``Sec-Fetch-Site`` is the browser's own judgement and survives proxies that rewrite ``Host``;
    older browsers send ``Origin`` only. A request with neither is not from a page of ours.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    host = request.headers.get("host")
    return origin is not None and host is not None and urlsplit(origin).netloc == host


Reader = Annotated[Principal, Security(authenticate, scopes=[Scope.READ.value])]
Writer = Annotated[Principal, Security(authenticate, scopes=[Scope.WRITE.value])]
Uploader = Annotated[Principal, Security(authenticate, scopes=[Scope.UPLOAD.value])]
TrustedUploader = Annotated[Principal, Security(authenticate, scopes=[Scope.UPLOAD_TRUSTED.value])]
Administrator = Annotated[Principal, Security(authenticate, scopes=[Scope.ADMIN.value])]
Anybody = Annotated[Principal, Security(authenticate)]
