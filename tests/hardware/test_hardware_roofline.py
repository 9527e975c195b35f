"""The two ceilings and where they meet."""

from __future__ import annotations

import pytest

from workers.hardware.roofline import Roofline


def test_the_ridge_is_where_both_ceilings_take_as_long() -> None:
    roofline = Roofline(flops_per_s=2e12, bytes_per_s=5e11)
    assert roofline.ridge == 4
    assert roofline.least_ms(4e9, 1e9) == pytest.approx(2.0)
    assert roofline.least_ms(8e9, 1e9) == pytest.approx(4.0)
    assert roofline.least_ms(4e9, 2e9) == pytest.approx(4.0)


@pytest.mark.parametrize("ceilings", [(0, 1), (1, 0), (-1, 1), (float("nan"), 1)])
def test_a_ceiling_that_is_not_positive_is_refused(ceilings: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="positive ceilings"):
        Roofline(*ceilings)
