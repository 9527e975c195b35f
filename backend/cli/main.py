"""``plait``: the command line."""

from __future__ import annotations

import typer

from backend.cli import artifact, jobs, profiles, tokens, zoo
from backend.cli.devices import devices
from backend.cli.doctor import doctor
from backend.cli.inspect import inspect
from backend.cli.schedule import schedule
from backend.cli.tune import resume, tune
from backend.cli.up import down, login, status, up

app = typer.Typer(
    name="plait",
    help=(
        "Find, by measuring, the fastest way to run a model's operators. Exit codes: 0 done, "
        "1 the job failed or something is missing, 2 usage, 3 no service answers, 4 refused, "
        "130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(tokens.app, name="token")
app.add_typer(zoo.app, name="zoo")
app.add_typer(profiles.app, name="profiles")
app.add_typer(artifact.app, name="artifact")
for command in (
    *(up, down, status, login, doctor),
    *(jobs.submit, jobs.watch, jobs.jobs, jobs.result, jobs.trace, jobs.cancel, jobs.retry),
    *(schedule, tune, resume, inspect, devices),
):
    app.command()(command)

if __name__ == "__main__":
    app()
