"""The Model page in a real Chromium: from a model that nobody has looked at to its graph."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from end_to_end.conftest import Stack

pytestmark = pytest.mark.browser

INSPECTION_MS = 120_000

COLOURS = """canvas => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return seen.size;
}"""


def shown(canvas: Locator) -> int:
    return int(canvas.get_attribute("data-units") or 0)


def test_a_model_is_inspected_drawn_searched_and_folded(page: Page, stack: Stack) -> None:
    page.goto(f"{stack.url}/models")
    page.get_by_test_id("zoo-row").get_by_role("link", name="squeezenet", exact=True).click()
    expect(page.get_by_test_id("not-inspected")).to_contain_text("batch 1, fused operators")
    page.get_by_test_id("inspect").click()
    expect(page.get_by_test_id("inspection-progress")).to_be_visible()
    canvas = page.get_by_test_id("graph-canvas")
    expect(canvas).to_be_visible(timeout=INSPECTION_MS)
    expect(page.get_by_test_id("inspection-progress")).to_have_count(0)

    units = page.get_by_test_id("units-table")
    total = int(units.get_attribute("aria-rowcount") or 0) - 1
    assert shown(canvas) == total
    expect(page.get_by_test_id("graph-totals")).to_contain_text(f"Units{total}")
    assert canvas.evaluate(COLOURS) > 4
    blocks = page.get_by_test_id("blocks-table")
    fire = blocks.get_by_role("row").filter(has_text=re.compile(r"^Block \d+63"))  # n = 6, d = 3
    expect(fire.first).to_be_visible()

    page.get_by_test_id("unit-search").fill("conv2d_12")
    page.get_by_role("option", name="conv2d_12", exact=True).click()
    expect(page.get_by_test_id("unit-name")).to_have_text("conv2d_12")
    expect(units.locator("[aria-selected=true]")).to_contain_text("conv2d_12")
    expect(page).to_have_url(re.compile(r"unit=conv2d_12"))
    box = canvas.bounding_box()
    assert box is not None
    # The search brought the unit to the middle, so a click there means it, also after a reload.
    page.get_by_role("button", name="Choose nothing").click()
    expect(page.get_by_test_id("unit-details")).to_have_count(0)
    canvas.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    expect(page.get_by_test_id("unit-name")).to_have_text("conv2d_12")
    page.reload()
    expect(page.get_by_test_id("unit-name")).to_have_text("conv2d_12")

    fire.first.click()
    page.get_by_test_id("toggle-block").click()
    expect(canvas).to_have_attribute("data-units", str(total - 6))
    expect(canvas).to_have_attribute("data-collapsed", "1")
    page.get_by_test_id("units-filter").fill("max_pool")
    expect(units).not_to_have_attribute("aria-rowcount", str(total + 1))
    units.get_by_role("button", name="max_pool2d", exact=True).press("Enter")
    expect(page.get_by_test_id("unit-name")).to_have_text("max_pool2d")


def test_a_job_leads_to_its_models_page_and_inspections_stay_out_of_the_list(
    page: Page, stack: Stack
) -> None:
    with stack.client() as client:
        inspections = client.get("/jobs", params={"purpose": "inspect"}).json()["items"]
        body = {"model": "zoo:squeezenet", "batch_sizes": [3], "granularity": "operator"}
        tuning = client.post("/jobs", json=body).json()["id"]
        client.post(f"/jobs/{tuning}/cancel")
    page.goto(f"{stack.url}/jobs/{inspections[0]['id']}")
    expect(page.get_by_test_id("job-state")).to_have_text("succeeded")
    expect(page.get_by_test_id("results-table")).to_have_count(0)
    page.goto(f"{stack.url}/jobs")
    expect(page.locator(f"a[href='/jobs/{tuning}']")).to_have_count(1)
    expect(page.locator(f"a[href='/jobs/{inspections[0]['id']}']")).to_have_count(0)
    page.goto(f"{stack.url}/jobs/{tuning}")
    page.get_by_test_id("job-model").click()
    expect(page).to_have_url(re.compile(r"/models/zoo(:|%3A)squeezenet\?.*batch=3"))
    expect(page.get_by_test_id("graph-batch")).to_have_value("3")
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{stack.url}/models/zoo:squeezenet")
    expect(page.get_by_test_id("graph-canvas")).to_be_visible()
    assert page.evaluate(overflow) <= 0
