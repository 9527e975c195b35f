"""A person's way through the dashboard, in a real Chromium."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from support.models import export_branches

from end_to_end.conftest import Stack

pytestmark = pytest.mark.browser

JOB_MS = 120_000


def horizontal_range(figure: Locator) -> list[float]:
    found: list[float] = figure.locator(".js-plotly-plot").evaluate(
        "element => element.layout.xaxis.range.map(Number)"
    )
    return found


def test_upload_tune_watch_and_download(page: Page, stack: Stack, tmp_path: Path) -> None:
    model = tmp_path / "branches-in-the-browser.pt2"
    export_branches(model)
    page.goto(f"{stack.url}/models")
    page.get_by_test_id("upload-dropzone").locator("input[type=file]").set_input_files(model)
    row = page.get_by_test_id("upload-row").filter(has_text=model.name)
    expect(row).to_be_visible()
    row.get_by_text("New job").click()
    expect(page.get_by_test_id("new-job-auto")).to_be_checked()
    page.get_by_test_id("new-job-single").check()
    page.get_by_test_id("new-job-submit").click()
    expect(page).to_have_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    expect(page.get_by_test_id("job-state")).to_have_text("succeeded", timeout=JOB_MS)

    table = page.get_by_test_id("results-table")
    for scheduler in ("sequential", "greedy", "ios"):
        expect(table.locator(f"[data-scheduler={scheduler}]")).to_be_visible()
    for figure in ("latency", "search", "rounds", "timeline"):
        expect(page.get_by_test_id(f"figure-{figure}").locator(".js-plotly-plot")).to_be_visible()
    expect(page.get_by_test_id("search-note")).to_contain_text("IOS: best")
    standings = page.get_by_test_id("search-standings")
    expect(standings).to_contain_text(re.compile("Stages.*measured.*States.*visited.*Status"))
    expect(page.get_by_test_id("timeline-note")).to_contain_text("measured on cpu")
    expect(page.get_by_test_id("log-tail")).to_contain_text("units")
    page.get_by_test_id("result-details-open").first.click()
    expect(page.get_by_test_id("result-details")).to_contain_text("Versions")
    page.keyboard.press("Escape")
    with page.expect_download() as downloading:
        page.get_by_test_id("artifact-download").first.click()
    target = tmp_path / "artifact.zip"
    downloading.value.save_as(target)
    with zipfile.ZipFile(target) as archive:
        assert {"run.py", "schedule.json"} <= set(archive.namelist())


def test_what_is_simulated_says_so_and_its_trace_downloads(
    page: Page, stack: Stack, tmp_path: Path
) -> None:
    with stack.client() as client:
        # Another model than the Model page's test inspects, which finds it not inspected yet.
        body = {"model": "zoo:nasbench_0", "device": "sim:v100", "schedulers": ["greedy"]}
        job = client.post("/jobs", json=body).json()["id"]
    page.goto(f"{stack.url}/jobs/{job}")
    expect(page.get_by_test_id("job-state")).to_have_text("succeeded", timeout=JOB_MS)
    expect(page.get_by_test_id("timeline-note")).to_contain_text("simulated on sim:v100")
    for labelled in ("job-summary", "results-table"):
        expect(page.get_by_test_id(labelled)).to_contain_text("simulated")
    timeline = page.get_by_test_id("figure-timeline")
    expect(timeline.locator(".xtitle")).to_contain_text("simulated")
    expect(timeline.locator(".annotation-text")).to_contain_text("simulated resident warps")
    with page.expect_download() as downloading:
        page.get_by_test_id("timeline-trace").click()
    target = tmp_path / downloading.value.suggested_filename
    downloading.value.save_as(target)
    trace = json.loads(target.read_text())
    assert trace["otherData"]["simulated"] is True
    assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X", "C"}


def test_auto_ranks_everything_and_says_why_and_who_was_skipped(
    page: Page, stack: Stack, tmp_path: Path
) -> None:
    model = tmp_path / "branches-for-auto.pt2"
    export_branches(model)
    source = stack.upload(model)
    page.goto(f"{stack.url}/jobs/new?model={quote(source)}")
    page.get_by_test_id("new-job-device").click()
    page.get_by_role("option", name="sim:v100").click()
    expect(page.get_by_test_id("new-job-auto")).to_be_checked()
    page.get_by_test_id("new-job-submit").click()
    expect(page.get_by_test_id("job-state")).to_have_text("succeeded", timeout=JOB_MS)

    with stack.client() as client:
        job = page.url.rsplit("/", 1)[-1]
        results = client.get(f"/jobs/{job}/results").json()
        [summary] = client.get(f"/jobs/{job}").json()["summary"]
    assert {"sequential", "greedy", "ios", "nimble", "opara", "opara-strict"} <= {
        result["scheduler"] for result in results
    } | {one["contender"] for one in summary["skipped"]}
    assert [result["place"] for result in results] == list(range(1, len(results) + 1))

    table = page.get_by_test_id("results-table")
    rows = table.get_by_test_id("result-row")
    expect(rows).to_have_count(len(results))
    expect(rows.first).to_have_attribute("data-scheduler", summary["winner"])
    expect(rows.first).to_contain_text("Winner")
    expect(page.get_by_test_id("job-summary")).to_contain_text("in simulation")
    expect(page.get_by_test_id("job-why")).to_contain_text(summary["why"][0])
    expect(page.get_by_test_id("job-floors")).to_contain_text("estimate")
    for one in summary["skipped"]:
        expect(page.get_by_test_id("job-skipped")).to_contain_text(one["reason"])
    expect(page.get_by_test_id("figure-latency").locator(".js-plotly-plot")).to_be_visible()
    expect(page.get_by_test_id("timeline-note")).to_contain_text("simulated on sim:v100")
    said = " ".join(stack.plait("result", job).stdout.split())
    assert "winner" in said
    assert "why:" in said


def points(figure: Locator) -> int:
    found: int = figure.locator(".js-plotly-plot").evaluate(
        "element => element.calcdata.reduce((total, trace) => total + trace.length, 0)"
    )
    return found


def test_live_updates_keep_the_zoom(page: Page, stack: Stack, slow_search: dict[str, Any]) -> None:
    with stack.client() as client:
        job = client.post("/jobs", json=slow_search).json()["id"]
    page.goto(f"{stack.url}/jobs/{job}")
    rounds = page.get_by_test_id("figure-rounds")
    expect(rounds.locator(".js-plotly-plot .xy").first).to_be_visible(timeout=JOB_MS)
    rounds.scroll_into_view_if_needed()
    area = rounds.locator(".nsewdrag").first.bounding_box()
    assert area is not None
    middle = area["y"] + area["height"] / 2
    page.mouse.move(area["x"] + area["width"] * 0.2, middle)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * 0.6, middle, steps=5)
    page.mouse.up()
    zoomed, drawn = horizontal_range(rounds), points(rounds)
    expect(page.get_by_test_id("job-state")).to_have_text("succeeded", timeout=JOB_MS)
    expect(page.get_by_test_id("results-table").locator("[data-scheduler=ios]")).to_be_visible()
    assert points(rounds) > drawn
    assert horizontal_range(rounds) == pytest.approx(zoomed)


def test_a_refused_file_is_explained_and_not_kept(page: Page, stack: Stack, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(b"this is no archive")
    page.goto(f"{stack.url}/models")
    page.get_by_test_id("upload-dropzone").locator("input[type=file]").set_input_files(broken)
    expect(page.get_by_test_id("upload-error")).to_contain_text("archive")
    expect(page.get_by_test_id("upload-row").filter(has_text="broken.pt2")).to_have_count(0)


def test_without_a_session_the_page_says_how_to_log_in(browser: Browser, stack: Stack) -> None:
    context = browser.new_context()
    opened = context.new_page()
    opened.goto(stack.url)
    expect(opened.get_by_test_id("logged-out")).to_contain_text("plait login")
    context.close()


def test_every_page_fits_a_phone_in_both_colour_schemes(browser: Browser, stack: Stack) -> None:
    for scheme in ("light", "dark"):
        context = browser.new_context(
            viewport={"width": 390, "height": 844},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        opened = context.new_page()
        opened.goto(stack.login_link())
        with stack.client() as client:
            job = client.get("/jobs", params={"state": "succeeded"}).json()["items"][0]["id"]
        for path in ("/models", "/jobs", "/jobs/new", f"/jobs/{job}", "/devices", "/tokens"):
            opened.goto(f"{stack.url}{path}")
            expect(opened.locator("h1").first).to_be_visible()
            overflow = opened.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert overflow <= 0, (scheme, path, overflow)
        context.close()
