"""What endpoints are given: the request's transaction. Nobody below them commits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends

from backend.db.transaction import Transaction, transaction
from backend.services import ServicesDep


async def _transaction(services: ServicesDep) -> AsyncIterator[Transaction]:
    async with transaction(services.sessions) as current:
        yield current


# Scope "function": committed, and announced, before the response is sent.
TransactionDep = Annotated[Transaction, Depends(_transaction, scope="function")]
