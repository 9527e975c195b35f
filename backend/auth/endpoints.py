"""Logging in, logging out, and API tokens."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Request, Response, status
from fastapi.responses import HTMLResponse, RedirectResponse

from backend.auth import repository, service
from backend.auth.cookie import delete_session_cookie, session_secret, set_session_cookie
from backend.auth.dependencies import Administrator, Anybody
from backend.auth.schemas import SessionRead, TokenCreate, TokenCreated, TokenRead
from backend.edge import TransactionDep
from backend.pages import LOGIN_FAILED
from backend.problems import NotFoundError, responses
from backend.services import ServicesDep

tokens = APIRouter(prefix="/tokens", tags=["tokens"], responses=responses(401, 403, 422))
session = APIRouter(prefix="/session", tags=["session"], responses=responses(401, 403))
login = APIRouter(tags=["session"])


@tokens.get("")
async def list_tokens(_: Administrator, transaction: TransactionDep) -> list[TokenRead]:
    """Every API token, newest first, the revoked ones included."""
    rows = await transaction.session.run_sync(service.list_tokens)
    return [TokenRead.model_validate(row) for row in rows]


@tokens.post("", status_code=status.HTTP_201_CREATED)
async def create_token(
    _: Administrator, services: ServicesDep, transaction: TransactionDep, wanted: TokenCreate
) -> TokenCreated:
    """A new API token. Its text is in this answer and nowhere else."""
    row, text = await transaction.session.run_sync(
        lambda session: service.issue_token(session, services.digest, **wanted.model_dump())
    )
    return TokenCreated(**TokenRead.model_validate(row).model_dump(), token=text)


@tokens.delete("/{token_id}", status_code=status.HTTP_204_NO_CONTENT, responses=responses(404))
async def revoke_token(_: Administrator, transaction: TransactionDep, token_id: UUID) -> None:
    """End a token for good."""
    if await transaction.session.run_sync(service.revoke_token, token_id) is None:
        raise NotFoundError(f"there is no token {token_id}")


@session.get("")
async def get_session(principal: Anybody) -> SessionRead:
    """Who is asking, and what they may do."""
    return SessionRead(scopes=sorted(principal.scopes), authenticated_by=principal.authenticated_by)


@session.delete("", status_code=status.HTTP_204_NO_CONTENT)
async def log_out(
    principal: Anybody, services: ServicesDep, transaction: TransactionDep, response: Response
) -> None:
    """End this browser's session. A token stays as it is."""
    if principal.session_digest is not None:
        await transaction.session.run_sync(service.log_out, principal.session_digest)
        delete_session_cookie(response, services.settings)


@login.get("/login", include_in_schema=False)
async def log_in(
    request: Request, services: ServicesDep, transaction: TransactionDep, code: str = ""
) -> Response:
    """Spend a one-time link on a session, then show the dashboard."""
    secret = await transaction.session.run_sync(
        service.log_in, services.settings, services.digest, code
    )
    if secret is None and not await _has_session(request, services, transaction):
        return HTMLResponse(LOGIN_FAILED, status.HTTP_401_UNAUTHORIZED)
    response = RedirectResponse("/", status.HTTP_303_SEE_OTHER)
    if secret is not None:
        set_session_cookie(response, services.settings, secret)
    return response


async def _has_session(
    request: Request, services: ServicesDep, transaction: TransactionDep
) -> bool:
    """Whether this browser is logged in anyway, as when it reloads a spent link."""
    presented = session_secret(request, services.settings)
    if presented is None:
        return False
    parameters = {"digest": services.digest(presented)}
    found = await transaction.session.execute(repository.live_session(), parameters)
    return found.first() is not None
