"""Tuning kernels in a real Chromium: from the form, over a stop and a resumption, to the zip."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from end_to_end.conftest import Stack

pytestmark = pytest.mark.browser
pytest.importorskip("tvm", reason="pip install 'plait[tvm]'")

JOB_MS = 120_000
WORKLOAD = "dense.resnet50_classifier"
TRIALS = 12
FIGURES = ("best", "parallelism", "deviation", "failures", "cpu", "processes")


def fill(page: Page, stack: Stack) -> None:
    """The form of a small job, as a person fills it."""
    page.goto(f"{stack.url}/jobs/new")
    page.get_by_test_id("new-job-purpose-kernels").check()
    page.get_by_test_id("new-job-program-source").get_by_text("By name or sizes").click()
    page.get_by_test_id("new-job-submit").click()
    expect(page.get_by_text("choose a workload, or give a program of your own")).to_be_visible()
    page.get_by_test_id("new-job-workloads").click()
    page.keyboard.type("classifier")
    expect(page.get_by_role("option")).to_have_count(2)
    page.get_by_role("option", name=re.compile(f"^{WORKLOAD}")).click()
    page.keyboard.press("Escape")
    page.get_by_test_id("new-job-tuner").click()
    page.get_by_role("option", name="Grid", exact=True).click()
    page.get_by_test_id("new-job-trials").fill(str(TRIALS))
    page.get_by_test_id("new-job-kernel-batch").fill("3")
    page.get_by_test_id("new-job-degree").fill("2")


def range_of(figure: Locator) -> list[float]:
    found: list[float] = figure.locator(".js-plotly-plot").evaluate(
        "element => element.layout.xaxis.range.map(Number)"
    )
    return found


def zoom(page: Page, figure: Locator) -> list[float]:
    """Drag over the middle of the figure; the range that is left."""
    figure.scroll_into_view_if_needed()
    area = figure.locator(".nsewdrag").first.bounding_box()
    assert area is not None
    middle = area["y"] + area["height"] / 2
    page.mouse.move(area["x"] + area["width"] * 0.2, middle)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * 0.6, middle, steps=5)
    page.mouse.up()
    return range_of(figure)


def tuning(stack: Stack, job: str, what: str = "") -> Any:
    with stack.client() as client:
        return client.get(f"/jobs/{job}/tuning{what}").raise_for_status().json()


def check_on_a_phone(browser: Browser, stack: Stack, job: str) -> None:
    """Nothing of the job's page is beyond the edge."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    opened = context.new_page()
    opened.goto(stack.login_link())
    opened.goto(f"{stack.url}/jobs/{job}")
    expect(opened.get_by_test_id("figure-tuning-best").locator(".js-plotly-plot")).to_be_visible()
    overflow = opened.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overflow <= 0
    button = opened.get_by_test_id("tuning-kernel-download").bounding_box()
    assert button is not None
    assert button["x"] + button["width"] <= 390
    context.close()


def test_tune_stop_resume_read_and_download(
    page: Page, browser: Browser, stack: Stack, tmp_path: Path
) -> None:
    fill(page, stack)
    page.get_by_test_id("new-job-submit").click()
    expect(page).to_have_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    job = page.url.rsplit("/", 1)[-1]
    rows = page.get_by_test_id("tuning-rounds").locator("tbody tr")
    expect(rows.first).to_be_visible(timeout=JOB_MS)

    page.get_by_test_id("job-cancel").click()
    expect(page.get_by_test_id("job-state")).to_have_text("cancelled", timeout=JOB_MS)
    before = tuning(stack, job, "/rounds")
    assert 0 < tuning(stack, job)["trials"] < TRIALS
    parallelism = page.get_by_test_id("figure-tuning-parallelism")
    expect(parallelism.locator(".js-plotly-plot .xy").first).to_be_visible()
    zoomed = zoom(page, parallelism)

    page.get_by_test_id("job-resume").click()
    expect(page.get_by_test_id("job-state")).to_have_text("succeeded", timeout=JOB_MS)
    expect(page.get_by_test_id("tuning-trials")).to_have_text(f"{TRIALS} of {TRIALS} trials")
    after = tuning(stack, job, "/rounds")
    assert after[: len(before)] == before
    expect(rows).to_have_count(len(after))
    expect(rows.first).to_contain_text(WORKLOAD)
    deviation = page.get_by_test_id("figure-tuning-deviation")
    expect(deviation.locator(".annotation-text")).to_have_text("resumed")
    assert range_of(parallelism) == pytest.approx(zoomed)
    for figure in FIGURES:
        drawn = page.get_by_test_id(f"figure-tuning-{figure}").locator(".js-plotly-plot")
        expect(drawn).to_be_visible()
    page.get_by_test_id("tuning-clock").get_by_text("Time").click()
    best = page.get_by_test_id("figure-tuning-best")
    expect(best.locator(".xtitle")).to_have_text("tuning time (s)")
    expect(page).to_have_url(re.compile(r"x=time"))

    program = page.get_by_test_id("tuning-program")
    expect(program).to_contain_text(WORKLOAD)
    [kernel] = tuning(stack, job, "/kernels")
    page.get_by_test_id("tuning-kernel-open").click()
    expect(page.get_by_test_id("tuning-listing")).to_contain_text("prim_func")
    page.get_by_role("tab", name="Assembly").click()
    expect(page.get_by_test_id("tuning-listing")).to_contain_text(".text")
    page.keyboard.press("Escape")
    with page.expect_download() as downloading:
        page.get_by_test_id("tuning-kernel-download").click()
    target = tmp_path / "kernel.zip"
    downloading.value.save_as(target)
    assert downloading.value.suggested_filename == kernel["filename"]
    with zipfile.ZipFile(target) as archive:
        assert {"run.py", "kernel.so"} <= {Path(name).name for name in archive.namelist()}

    page.goto(f"{stack.url}/jobs")
    row = page.locator(f"[data-job='{job}']")
    expect(row.get_by_test_id("job-purpose")).to_have_text("Kernels")
    check_on_a_phone(browser, stack, job)


def test_a_device_that_tunes_no_kernels_says_why(page: Page, stack: Stack) -> None:
    page.goto(f"{stack.url}/jobs/new")
    page.get_by_test_id("new-job-purpose-kernels").check()
    expect(page.get_by_test_id("new-job-no-kernels")).to_have_count(0)
    page.get_by_test_id("new-job-device").click()
    page.get_by_role("option", name="sim:v100").click()
    expect(page.get_by_test_id("new-job-no-kernels")).to_contain_text("simulated")
    page.get_by_test_id("new-job-program-source").get_by_text("By name or sizes").click()
    expect(page.get_by_test_id("new-job-workloads")).to_be_disabled()


def test_a_program_of_ones_own_has_the_sizes_that_were_written(page: Page, stack: Stack) -> None:
    page.goto(f"{stack.url}/jobs/new")
    page.get_by_test_id("new-job-purpose-kernels").check()
    page.get_by_test_id("new-job-program-source").get_by_text("By name or sizes").click()
    field = page.get_by_test_id("new-job-programs")
    field.fill("matm")
    expect(page.get_by_role("option", name=re.compile("^matmul:"))).to_contain_text("rows=")
    field.fill("matmul:raws=64")
    field.press("Enter")
    page.get_by_test_id("new-job-submit").click()
    expect(page.get_by_text("matmul has no size 'raws'")).to_be_visible()
    field.press("Backspace")
    field.fill("matmul:rows=64,columns=32")
    field.press("Enter")
    page.get_by_test_id("new-job-trials").fill("2")
    page.get_by_test_id("new-job-submit").click()
    expect(page).to_have_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    job = page.url.rsplit("/", 1)[-1]
    with stack.client() as client:
        [asked] = client.get(f"/jobs/{job}").json()["spec"]["kernels"]["programs"]
        client.post(f"/jobs/{job}/cancel").raise_for_status()
    assert (asked["family"], asked["sizes"]) == ("matmul", {"rows": 64, "columns": 32})
