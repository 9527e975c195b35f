"""``plait token create | list | revoke``: run where the database is, so that the first token
needs no other."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer
from rich.table import Table
from sqlalchemy.orm import Session, sessionmaker

from backend.auth.schemas import TokenRead
from backend.auth.scopes import Scope
from backend.auth.service import create_token, list_tokens, revoke_token
from backend.cli.exits import ExitCode
from backend.cli.local import database_settings
from backend.cli.output import Json, console, fail, handles_errors, print_json
from backend.db.session import create_sync_sessions
from backend.settings import Settings, get_settings

CI_SCOPES = [Scope.READ, Scope.WRITE, Scope.UPLOAD]

app = typer.Typer(help="API tokens for CI.", no_args_is_help=True)


def _database() -> tuple[Settings, sessionmaker[Session]]:
    settings = database_settings(get_settings())
    return settings, create_sync_sessions(settings)


@app.command()
@handles_errors
def create(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[
        list[Scope], typer.Option("--scope", "-s", help="May be repeated.")
    ] = CI_SCOPES,
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="Expires after.")] = None,
    as_json: Json = False,
) -> None:
    """Create a token and print it, this once."""
    settings, sessions = _database()
    with sessions() as session, session.begin():
        token = create_token(session, settings, name=name, scopes=scope, expires_in_days=days)
    if as_json:
        print_json({"name": name, "scopes": scope, "token": token})
    else:
        console.print(token, highlight=False, soft_wrap=True)


@app.command("list")
@handles_errors
def list_(as_json: Json = False) -> None:
    """List tokens; the secrets themselves are not stored."""
    _, sessions = _database()
    with sessions() as session:
        tokens = [TokenRead.model_validate(row) for row in list_tokens(session)]
    if as_json:
        print_json([token.model_dump(mode="json") for token in tokens])
        return
    table = Table()
    for column in ("id", "name", "ends in", "scopes", "expires", "last used", "revoked"):
        table.add_column(column, overflow="fold")
    for token in tokens:
        dates = (token.expires_at, token.last_used_at, token.revoked_at)
        shown = [f"{date:%Y-%m-%d %H:%M}" if date else "–" for date in dates]
        table.add_row(str(token.id), token.name, token.hint, " ".join(token.scopes), *shown)
    console.print(table)


@app.command()
@handles_errors
def revoke(
    token: Annotated[UUID, typer.Argument(metavar="ID", help="The token's id.")],
    as_json: Json = False,
) -> None:
    """Revoke a token; it stops working at once."""
    _, sessions = _database()
    with sessions() as session, session.begin():
        found = revoke_token(session, token) is not None
    if not found:
        raise fail(f"there is no token {token}", ExitCode.REFUSED)
    if as_json:
        print_json({"revoked": token})
    else:
        console.print(f"revoked {token}")
