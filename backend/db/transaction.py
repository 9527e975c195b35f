"""One request is one transaction, and only the edge commits it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

Action = Callable[[], Awaitable[None]]


class Transaction:
    """A session with what is to be done once it is known how it ended."""

    def __init__(self, session: AsyncSession) -> None:
        self.session = session
        self.committed: list[Action] = []
        self.rolled_back: list[Action] = []

    def after_commit(self, action: Action) -> None:
        """Do ``action`` once others can see what this transaction wrote."""
        self.committed.append(action)

    def after_rollback(self, action: Action) -> None:
        """Do ``action`` if it is certain that nothing of this transaction remains."""
        self.rolled_back.append(action)


@asynccontextmanager
async def transaction(sessions: async_sessionmaker[AsyncSession]) -> AsyncIterator[Transaction]:
    """Commit at the end, or roll back on any exception. Takes a connection on first use only.

    A commit that fails undoes nothing outside the database: its connection broke, and nobody
    knows whether it came through.
    """
    async with sessions() as session:
        current = Transaction(session)
        try:
            yield current
        except BaseException:
            await session.rollback()
            for action in current.rolled_back:
                await action()
            raise
        await session.commit()
    for action in current.committed:
        await action()
