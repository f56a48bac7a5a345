"""Write docs/images/page.png and page-dark.png: the page, on a conversation of the shipped data set.

Run from the repository's root, where Chromium is installed: `python docs/picture.py`.
"""
# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from playwright.sync_api import sync_playwright

from neuralstream import NeuralStream, Settings
from neuralstream.logs import read_log
from neuralstream.testing.service import serving

ROOT = Path(__file__).parents[1]
LOG = ROOT / "datasets/workdays/conversations/arlo.jsonl"
QUERY = "when is the volunteer training?"
PATIENCE_MS = 120_000


def main() -> None:
    """Replay, serve, look."""
    with TemporaryDirectory() as home:
        settings = Settings(home=Path(home), worker="inline", user_id="arlo")
        with NeuralStream(settings) as memory:
            memory.capture_all(read_log(LOG))
            memory.flush()
            memory.search(QUERY)  # loads the model, so that the page does not wait for it
            with serving(memory) as url:
                take_pictures(f"{url}/#/search?q={quote(QUERY)}")


def take_pictures(address: str) -> None:
    """A light and a dark one."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme, name in (("light", "page.png"), ("dark", "page-dark.png")):
            page = browser.new_page(
                viewport={"width": 1240, "height": 820}, device_scale_factor=1.5, color_scheme=scheme
            )
            page.goto(address)
            page.locator(".hit").first.wait_for(timeout=PATIENCE_MS)
            page.screenshot(path=ROOT / "docs/images" / name)
        browser.close()


if __name__ == "__main__":
    main()
