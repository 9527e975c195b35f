"""The few pages that exist without the frontend."""

from __future__ import annotations

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
  body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 20vh auto }}
</style>
<h1>{title}</h1>
<p>{text}</p>
"""

LOGIN_FAILED = _PAGE.format(
    title="This login link no longer works",
    text="It was used already, or it has expired. Run <code>plait login</code> for a new one.",
)

NOT_BUILT = _PAGE.format(
    title="Plait is running",
    text="The dashboard has not been built. Run <code>make up</code>, or <code>npm ci &amp;&amp; "
    "npm run build</code> in <code>frontend/</code>. The API is at <code>/api/v1</code>.",
)
