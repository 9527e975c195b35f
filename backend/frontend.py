"""Serving the built frontend at ``/``: one page for every path that is not the API's."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from backend.pages import NOT_BUILT

DIST = Path(__file__).parents[1] / "frontend" / "dist"
IMMUTABLE = "public, max-age=31536000, immutable"


class _SinglePage(StaticFiles):
    """Files as they are; any other path is a page of the dashboard, so it gets index.html."""

    def __init__(self, directory: Path, api: str) -> None:
        super().__init__(directory=directory, check_dir=False)
        self.config_checked = True  # a folder that is missing has its own answer below
        self._built = directory / "index.html"
        self._api = api.strip("/").partition("/")[0]

    async def get_response(self, path: str, scope: Scope) -> Response:
        if path == self._api or path.startswith(f"{self._api}/"):
            raise HTTPException(404)
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        if not self._built.exists():
            return HTMLResponse(NOT_BUILT)
        try:
            response = await super().get_response(path, scope)
        except HTTPException as error:
            if error.status_code != 404 or "." in Path(path).name:
                raise
            path = "index.html"
            response = await super().get_response(path, scope)
        # Vite names what lies under assets/ after its content.
        response.headers["Cache-Control"] = IMMUTABLE if path.startswith("assets/") else "no-cache"
        return response


def serve_frontend(app: FastAPI, directory: Path, api_prefix: str) -> None:
    """Serve ``directory`` for every path that no route knows.

    Not a mount at ``/``: that would also take an API path asked for with the wrong method, which
    is a 405 and not a 404.
    """
    app.router.default = _SinglePage(directory, api_prefix)
