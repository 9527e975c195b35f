"""The formats that can be imported. Needs no torch: a worker announces them when it starts."""

from __future__ import annotations

FORMATS = ("pt2",)
"""By their usual file ending: ``pt2`` is the archive that ``torch.export.save`` writes."""
