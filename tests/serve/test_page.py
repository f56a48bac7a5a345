import re
import shutil
from urllib.parse import quote

import pytest

from neuralstream.config import ServeSettings, Settings
from neuralstream.stream import NeuralStream
from neuralstream.testing import FakeEmbedder
from neuralstream.testing.service import serving
from neuralstream.types import Turn

playwright = pytest.importorskip("playwright.sync_api", reason="the page is tested with playwright: pip install it")
expect = playwright.expect

pytestmark = pytest.mark.slow

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
EVIL = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>'
PATIENCE_MS = 60_000
TOKEN = "a-token-of-ada-that-is-long"


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium of this machine."""
    if CHROMIUM is None:
        pytest.skip("no chromium is installed: apt install chromium")
    expect.set_options(timeout=PATIENCE_MS)
    with playwright.sync_playwright() as driver:
        # As root, which containers are, Chromium has no sandbox; it opens nothing but this test's service.
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def opened_memory(tmp_path_factory):
    """A memory of one user with a session that two triggers had distilled."""
    home = tmp_path_factory.mktemp("home")
    settings = Settings(home=home, cache_dir=home / "cache", worker="inline", user_id="ada")
    with NeuralStream(settings, embedder=FakeEmbedder()) as memory:
        say(memory, "We decided that Anna runs Redis on port 6381 in Berlin.", session_id="ports")
        for number in range(4):
            say(memory, f"Anna prefers tea number {number} in Berlin.", session_id="ports")
        say(memory, f"Remember what Anna pasted: {EVIL}", session_id="ports")
        memory.end_session("ports", reason="compaction")
        yield memory


@pytest.fixture(scope="module")
def address(opened_memory):
    """Where the memory is served."""
    with serving(opened_memory) as url:
        yield url


@pytest.fixture
def page(browser, address):
    """The page, which must not fail, log an error, or ask anybody but its own service."""
    context = browser.new_context(base_url=address)
    context.set_default_timeout(PATIENCE_MS)
    opened = context.new_page()
    wrong, asked = [], []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    opened.on("request", lambda request: asked.append(request.url))
    yield opened
    context.close()
    assert wrong == []
    assert [url for url in asked if not url.startswith(address)] == []


def say(memory, text, *, session_id):
    """Capture an exchange."""
    memory.capture(Turn.exchange(text, "Noted.", session_id=session_id, user_id="ada"))


def heading(page):
    """What the view is about."""
    return page.get_by_role("heading", level=1)


def test_a_search_shows_each_hit_with_the_score_of_every_signal(page):
    """Hits are announced, and a table beside each names its signals."""
    page.goto("/")
    page.get_by_label("Search memory").fill("redis port")
    page.get_by_role("button", name="Search").click()
    expect(heading(page)).to_contain_text("redis port")
    expect(page.get_by_role("status")).to_contain_text("for redis port")
    best = page.locator(".hit").first
    expect(best).to_contain_text("6381")
    shown = best.get_by_role("rowheader")
    few = shown.count()
    page.get_by_label("Every signal").check()
    expect(shown.filter(has_text=re.compile("^graph$"))).to_be_visible()
    assert shown.count() > few > 0


def test_a_search_can_be_reached_again_by_its_address(page):
    """Mode and lane are in it."""
    page.goto("/#/search?q=redis&mode=bm25&lane=turns")
    expect(heading(page)).to_contain_text("redis")
    expect(page.get_by_label("Ranked by")).to_have_value("bm25")
    expect(page.locator(".hit .kind.gem")).to_have_count(0)
    expect(page.locator(".hit .kind.turn").first).to_be_visible()


def test_a_session_shows_its_triggers_and_gems_along_time(page):
    """Each batch names what made it due."""
    page.goto("/")
    page.get_by_role("navigation").get_by_role("link", name="Sessions").click()
    expect(heading(page)).to_have_text(re.compile("^[0-9]+ sessions?$"))
    page.get_by_role("link", name="ports").click()
    triggers = page.locator(".trigger")
    expect(triggers).to_have_count(2)
    expect(triggers.nth(0)).to_contain_text("A batch was full")
    expect(triggers.nth(1)).to_contain_text("The host was about to compact")
    expect(page.locator(".batch").first.locator("article.gem").first).to_be_visible()


def test_a_gem_shows_its_source_turns_and_leads_to_what_it_names(page, opened_memory):
    """The graph around an entity leads on to its neighbours and back to the gem."""
    gem = next(gem for gem in opened_memory.gems() if "6381" in gem.content)
    page.goto(f"/#/gem/{gem.gem_id}")
    expect(heading(page)).to_have_text(gem.content)
    expect(page.get_by_role("region").or_(page.locator("section")).filter(has_text="Source turns")).to_contain_text(
        "We decided that Anna runs Redis"
    )
    page.get_by_role("list", name="Named in it").get_by_role("link", name="berlin").click()
    expect(heading(page)).to_have_text("berlin")
    graph = page.get_by_role("group", name="What is named beside berlin")
    node = graph.get_by_role("link", name=re.compile("^anna"))
    node.focus()
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text("anna")


def test_a_corrected_gem_keeps_its_history(page, opened_memory):
    """The new version is shown, and the old one below it."""
    old = opened_memory.remember("The office closes at five.")
    page.goto(f"/#/gem/{old.gem_id}")
    page.get_by_role("button", name="Correct").click()
    page.get_by_label("What it should say").fill("The office closes at six.")
    page.get_by_role("button", name="Save correction").click()
    expect(heading(page)).to_have_text("The office closes at six.")
    history = page.locator("section").filter(has=page.get_by_role("heading", name="History"))
    expect(history.get_by_role("link", name="The office closes at five.")).to_be_visible()
    assert opened_memory.gem(old.gem_id).status == "superseded"


def test_forgetting_asks_first_and_then_says_what_was_removed(page, opened_memory):
    """Cancel keeps it; after that, every check is listed."""
    gem = opened_memory.remember("The safe code is on the fridge.")
    page.goto(f"/#/gem/{gem.gem_id}")
    page.get_by_role("button", name="Forget").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    assert opened_memory.gem(gem.gem_id)
    page.get_by_role("button", name="Forget").click()
    dialog.get_by_role("button", name="Forget it").click()
    expect(dialog).to_contain_text("1 gem")
    expect(dialog).to_contain_text("gem store: gone")
    dialog.get_by_role("button", name="Close").click()
    expect(heading(page)).to_have_text("Memory of ada")
    assert gem.gem_id not in {one.gem_id for one in opened_memory.gems(status=None)}


def test_a_forgotten_session_is_gone_from_the_list(page, opened_memory):
    """Its turns go with it."""
    say(opened_memory, "A secret walk by the lake.", session_id="walk")
    page.goto("/#/session/walk")
    page.get_by_role("button", name="Forget this session").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget it").click()
    expect(page.get_by_role("dialog")).to_contain_text("turn store: gone")
    page.keyboard.press("Escape")
    expect(heading(page)).to_contain_text("session")
    expect(page.get_by_role("link", name="walk")).to_have_count(0)
    assert opened_memory.thread("walk") == []


@pytest.mark.parametrize("where", ["#/search?q=pasted", "#/session/ports", f"#/entity/{quote(EVIL, safe='')}"])
def test_markup_in_a_memory_is_shown_as_text(browser, address, where):
    """A script that somebody pasted does not run, nor is an image of it asked for."""
    page = browser.new_page(base_url=address)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"/{where}")
    expect(page.locator("main")).to_contain_text("<script>window.ran=1</script>", timeout=PATIENCE_MS)
    assert page.evaluate("window.ran") is None
    assert page.locator("main img, main script").count() == 0
    assert not [url for url in asked if url.endswith("/x")]
    page.close()


def test_everything_can_be_done_with_the_keyboard(page):
    """/ searches, Tab reaches hits in order with a visible focus, Enter opens, Escape leaves a dialog where it was."""
    page.goto("/")
    expect(heading(page)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Search memory")).to_be_focused()
    page.keyboard.type("tea")
    page.keyboard.press("Enter")
    expect(heading(page)).to_contain_text("tea")
    first = page.locator(".hit .gem .statement a").first
    for _ in range(40):
        page.keyboard.press("Tab")
        if first.evaluate("link => link === document.activeElement"):
            break
    assert first.evaluate("link => getComputedStyle(link).outlineStyle") == "solid"
    words = first.text_content()
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text(words)
    expect(heading(page)).to_be_focused()
    button = page.get_by_role("button", name="Correct")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("What it should say")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()


def test_dark_and_light_follow_the_system_and_can_be_read(page):
    """Text keeps a contrast of 4.5 to 1 in both (WCAG 2.2, 1.4.3)."""
    page.goto("/#/session/ports")
    expect(page.locator(".meta").first).to_be_visible()
    papers = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        papers.append(luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")))
        for selector in ("h1", "main .meta", "article .words", ".tag", "button.danger"):
            assert contrast(page, selector) >= 4.5, (scheme, selector)
        assert page.evaluate("getComputedStyle(document.querySelector('main')).transitionDuration") == "0s"
    assert papers[0] > 0.8
    assert papers[1] < 0.05


def test_a_token_is_asked_for_and_kept_for_the_tab_alone(browser, tmp_path):
    """Without it nothing is shown; with it, its user's memory."""
    settings = Settings(home=tmp_path / "home", worker="inline", serve=ServeSettings(tokens={"ada": TOKEN}))
    with NeuralStream(settings, embedder=FakeEmbedder()) as memory:
        say(memory, "Only Ada knows.", session_id="hers")
        with serving(memory) as url:
            page = browser.new_page(base_url=url)
            page.goto("/#/sessions")
            expect(page.get_by_role("dialog")).to_contain_text("asks for a token")
            expect(page.get_by_text("hers", exact=True)).to_have_count(0)
            page.get_by_label("Token", exact=True).fill(TOKEN)
            page.keyboard.press("Enter")
            expect(page.get_by_role("link", name="hers")).to_be_visible()
            assert page.evaluate("localStorage.length + document.cookie.length") == 0
            assert TOKEN not in page.url
            page.close()


def contrast(page, selector):
    """Contrast of an element's text with what is behind it, as WCAG 2.2 defines it."""
    ink, paper = page.locator(selector).first.evaluate(
        """element => {
            let behind = element;
            while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
            return [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
        }"""
    )
    dark, light = sorted((luminance(ink), luminance(paper)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    """Relative luminance of `rgb(r, g, b)`, 0 to 1."""
    channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
