"""``python -m backend``: the API, configured by the environment."""

from __future__ import annotations

import logging

from backend.server import create_server
from backend.settings import get_settings


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    create_server(get_settings()).run()


if __name__ == "__main__":
    main()
