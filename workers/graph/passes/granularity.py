"""How much work a Unit holds."""

from __future__ import annotations

from enum import StrEnum


class Granularity(StrEnum):
    """What a scheduler places as one Unit; the coarser, the smaller its search."""

    OPERATOR = "operator"
    """Every operator that launches a kernel, with the views around it."""

    FUSED = "fused"
    """What one kernel could compute: a layer with its activation, a separable convolution, a chain
    or tree of element-wise operators."""

    BLOCK = "block"
    """Every run of fused Units between two branchings. Branches stay apart, so that there is still
    something to schedule."""
