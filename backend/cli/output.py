"""What every command shares: the console, ``--json``, and errors turned into exit codes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Annotated, Any, ParamSpec, TypeVar

import orjson
import typer
from rich.console import Console

from backend.cli.client import RefusedError, UnreachableError
from backend.cli.exits import ExitCode
from backend.cli.local import NotRunningError

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

P = ParamSpec("P")
R = TypeVar("R")

console = Console()
errors = Console(stderr=True)


def print_json(value: Any) -> None:
    """Print ``value`` as JSON, indented for a terminal, compact for a pipe."""
    option = orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0
    sys.stdout.write(orjson.dumps(value, option=option).decode() + "\n")


def fail(message: str, code: ExitCode) -> typer.Exit:
    """Say what is wrong on standard error and end with ``code``. What a program or a file reads is
    not wrapped: a path must stay in one piece."""
    read_by_a_person = errors.file.isatty()
    errors.print(
        message, style="red", markup=False, highlight=False, soft_wrap=not read_by_a_person
    )
    return typer.Exit(code)


def handles_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the client's errors into messages and documented exit codes."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (UnreachableError, NotRunningError) as error:
            raise fail(str(error), ExitCode.UNREACHABLE) from error
        except RefusedError as error:
            raise fail(str(error), ExitCode.REFUSED) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(ExitCode.INTERRUPTED) from error

    return wrapped
