"""The built site: its links lead somewhere, it fetches nothing from elsewhere, it can be read."""

import re

import pytest

from orderly import __version__
from tests.docs.pages import blocks_of
from tests.docsite.pages import dead, dead_links, read
from tests.support.programs import browser

FROM_ELSEWHERE = re.compile(r"(?:https?:)?//")
WIDTHS = {"wide": 1280, "narrow": 400}
CONSOLES = (
    "how-to/install",
    "how-to/doctor",
    "how-to/monitoring",
    "how-to/operate",
    "how-to/parking",
    "how-to/spark",
    "how-to/topics",
    "tutorial/first-ordered-stream",
)


def pages_with_consoles():
    """Pages of docs/ on the site."""
    return [f"{name}.html" for name in CONSOLES]


def console_commands(page):
    """Of each console block of a page, what is behind its prompts."""
    blocks = blocks_of(f"docs/{page.removesuffix('.html')}.md")
    for block in blocks:
        if block.tag == "console":
            lines = block.text.splitlines()
            yield "\n".join(line[2:] for line in lines if line.startswith("$ "))


LOOKED_AT = (
    "index.html",
    "how-to/once.html",
    "how-to/alerts.html",
    "explanation/promises.html",
    "reference/cli.html",
    "reference/configuration.html",
    "reference/metrics.html",
    "reference/api/consumer.html",
    "project/changelog.html",
)


@pytest.fixture(scope="module")
def pages(site):
    return read(site)


def test_every_link_leads_to_a_page_and_a_place_on_it(pages):
    assert len(pages) > 60
    assert dead_links(pages) == []


def test_every_picture_is_there(pages):
    shown = [
        (page, what)
        for page in pages.values()
        for what in page.fetched
        if what.endswith((".svg", ".png")) and page.path.name != "404.html"
    ]
    names = {what.rpartition("/")[2] for _, what in shown}
    assert names >= {
        "peers.svg",
        "report.png",
        "backlog.svg",
        "parked.svg",
    }  # of benchmarks/, and of docs/
    assert [(page.path.name, what) for page, what in shown if dead(what, page, pages)] == []


MARKUP = re.compile(
    r"\*\*|`|\]\(|\]\[|<!--|:::|~~~|\{[:#]|\\[_*|\[\]]|^\s*(?:\||- |#+ )", re.MULTILINE
)


def test_all_markup_is_understood(pages):
    left = [
        (page.path.name, found[0]) for page in pages.values() if (found := MARKUP.search(page.text))
    ]
    assert left == []


def test_nothing_is_fetched_from_elsewhere(pages):
    fetched = {what for page in pages.values() for what in page.fetched}
    assert [what for what in sorted(fetched) if FROM_ELSEWHERE.match(what)] == []


def test_nor_by_the_style_sheets(site):
    sheets = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    urls = re.findall(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", sheets)
    assert urls
    assert [url for url in urls if FROM_ELSEWHERE.match("".join(url))] == []


@pytest.fixture(scope="module")
def window():
    with browser() as page:
        yield page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_fits_its_window_and_complains_of_nothing(window, site, name, width, scheme):
    window.open(f"{(site / name).as_uri()}", width=width, scheme=scheme)
    assert window.evaluate("document.documentElement.scrollWidth") <= width
    got = window.evaluate("performance.getEntriesByType('resource').map(each => each.name)")
    assert [url for url in got if not url.startswith("file:")] == []
    assert window.complaints == []


def test_it_is_searched_without_a_server(window, site):
    window.open((site / "index.html").as_uri())
    window.evaluate("document.querySelector('.md-search__input').focus()")
    for letter in "handover":
        window.press(letter)
    found = "document.querySelector('.md-search-result__list').innerText.toLowerCase()"
    window.eventually(f"{found}.includes('handover')")


COPIED = """[...document.querySelectorAll('.md-content pre > code')].filter(
    code => code.querySelector('.gp')).map(code => {
    code.dataset.mdCopying = '';
    const text = code.innerText;
    delete code.dataset.mdCopying;
    return text;
})"""


def test_of_a_console_block_the_commands_are_copied(window, site):
    window.open((site / "tutorial" / "first-ordered-stream.html").as_uri())
    copied = window.evaluate(COPIED)[0]
    assert copied.startswith("source .venv")
    assert "\norderly broker start" in copied


@pytest.mark.parametrize("page", pages_with_consoles())
def test_of_no_console_block_anything_else_is_copied(window, site, page):
    window.open((site / page).as_uri())
    for copied, commands in zip(window.evaluate(COPIED), console_commands(page), strict=True):
        assert copied.split() == commands.split()


def test_with_the_mouse_no_prompt_is_selected(window, site):
    window.open((site / "tutorial" / "first-ordered-stream.html").as_uri())
    style = "getComputedStyle(document.querySelector('.md-content .gp')).userSelect"
    assert window.evaluate(style) == "none"


def test_the_first_page_says_its_version_and_how_to_install(window, site):
    window.open((site / "index.html").as_uri(), width=WIDTHS["wide"], height=800)
    top = window.evaluate(
        "[...document.querySelectorAll('.md-header__topic, .hero')]"
        ".filter(each => each.getBoundingClientRect().top < 700).map(each => each.innerText)"
    )
    assert any(__version__ in text for text in top)
    assert any("pip install" in text for text in top)


def test_sync_and_async_are_tabs_that_change_together(window, site):
    window.open((site / "how-to" / "consume.html").as_uri())
    labels = "[...document.querySelectorAll('.tabbed-labels label')].map(l => l.innerText)"
    assert window.evaluate(labels) == ["Threads", "asyncio"]
    shown = (
        "[...document.querySelectorAll('.tabbed-block')]"
        ".filter(each => each.offsetHeight).map(each => each.innerText.includes('await ') ||"
        " each.innerText.includes('async def'))"
    )
    assert window.evaluate(shown) == [False]
    window.evaluate("document.querySelectorAll('.tabbed-labels label')[1].click()")
    window.eventually(f"JSON.stringify({shown}) === '[true]'")
