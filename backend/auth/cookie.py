"""The session cookie."""

from __future__ import annotations

from fastapi import Request, Response

from backend.settings import Settings

COOKIE = "plait_session"


def cookie_name(settings: Settings) -> str:
    """With the ``__Host-`` prefix, browsers refuse a cookie that another host tries to plant."""
    return f"__Host-{COOKIE}" if settings.secure_cookies else COOKIE


def session_secret(request: Request, settings: Settings) -> str | None:
    """What the browser sent, or None."""
    return request.cookies.get(cookie_name(settings)) or None


def set_session_cookie(response: Response, settings: Settings, secret: str) -> None:
    """Strict suffices: the page that the login redirects to needs no session, and every request
    that does is sent by that page itself."""
    response.set_cookie(
        cookie_name(settings),
        secret,
        max_age=settings.session_hours * 3600,
        path="/",
        httponly=True,
        secure=settings.secure_cookies,
        samesite="strict",
    )


def delete_session_cookie(response: Response, settings: Settings) -> None:
    response.delete_cookie(
        cookie_name(settings),
        path="/",
        httponly=True,
        secure=settings.secure_cookies,
        samesite="strict",
    )
