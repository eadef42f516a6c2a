"""Pictures as files: PNG, SVG and one page that needs no network."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from kvplan.solver.pictures.html_report import html_report
from support.cases import CASES, load
from support.cli import run_kvplan

Capture = pytest.CaptureFixture[str]
FILE = CASES["strata_765"]
SWEEP = ("explore", FILE, "--vary", "ranks.*.quota=14GiB:16GiB:1GiB")
FRONT = ("frontier", FILE, "--goals", "prefill:8192,experts")
CHARTS = re.compile(r'<script type="application/json" id="charts">(.*?)</script>', re.DOTALL)


@pytest.mark.parametrize("command", [SWEEP, FRONT])
@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_same_picture_has_the_same_bytes(
    command: tuple[str, ...], ending: str, start: bytes, capsys: Capture, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        done = run_kvplan(capsys, *command, "--out", path)
        assert (done.code, done.err) == (0, "")
    first, second = (path.read_bytes() for path in paths)
    assert first.startswith(start)
    assert first == second
    assert sorted(tmp_path.iterdir()) == paths


def test_a_report_is_written_and_a_refusal_leaves_no_file(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    done = run_kvplan(capsys, "report", FILE, "--out", path)
    assert (done.code, done.err) == (0, "")
    assert len(path.read_bytes()) < 6_000_000
    other = tmp_path / "none.html"
    refused = run_kvplan(capsys, "report", FILE, "--out", other, "--set", "ranks.*.quota=1GiB")
    assert refused.code == 1
    assert "rank gpu is short by" in refused.out
    assert not other.exists()
    bad = run_kvplan(capsys, "report", FILE, "--out", tmp_path / "page.txt")
    assert bad.code == 2
    assert bad.err.startswith("--out: expected a file ending in .html, got ")


def charts_in(text: str) -> list[dict[str, Any]]:
    found = CHARTS.search(text)
    assert found is not None
    charts: list[dict[str, Any]] = json.loads(found[1])
    return charts


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_shipped_case_has_a_report(name: str) -> None:
    """Bars and the sweep always; names are escaped; the digest is there."""
    problem = load(name).model_copy(update={"name": "<b>&"})
    text = html_report(problem)
    assert len(charts_in(text)) >= 2
    assert "<h1>&lt;b&gt;&amp;</h1>" in text
    assert re.search(r"digest [0-9a-f]{64}; question [0-9a-f]{64}", text)


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "page.html"
    problem = load("strata_765")
    path.write_text(html_report(problem), encoding="utf-8")
    return path


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium (apt install chromium)")
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_a_browser_draws_it_without_a_request(page: Path, width: int, scheme: Any) -> None:
    """On a desk in daylight and on a phone in the dark: charts, hover, legend, no errors."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        errors: list[str] = []
        requests: list[str] = []
        view.on("pageerror", lambda error: errors.append(str(error)))
        view.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        view.on("request", lambda request: requests.append(request.url))
        view.goto(page.as_uri())
        view.wait_for_selector("#chart2 .main-svg")
        assert errors == []
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
        assert view.evaluate("document.documentElement.scrollWidth") <= width
        back = view.evaluate("getComputedStyle(document.body).backgroundColor")
        assert back == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 24, 27)")
        assert view.locator("#chart0 .bars path").count() > 3
        bar = view.locator("#chart0 .bars path").first
        bar.scroll_into_view_if_needed()
        box = bar.bounding_box()
        assert box is not None
        view.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        hover = view.wait_for_selector("#chart0 .hoverlayer .hovertext")
        assert re.search(r"[\d_]+ B \([\d.]+ [GM]iB\)", hover.text_content() or "")
        before = view.locator("#chart0 .bars path").count()
        view.locator("#chart0 .legendtoggle").nth(1).click()
        view.wait_for_function(
            f"document.querySelectorAll('#chart0 .bars path').length != {before}"
        )
        browser.close()
