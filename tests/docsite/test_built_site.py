"""The built site: its links lead somewhere, it fetches nothing from elsewhere, it can be read."""

import re

import pytest

from tests.docsite.pages import dead, dead_links, read
from tests.support.programs import browser, browser_is_wanted

FROM_ELSEWHERE = re.compile(r"(?:https?:)?//")
WIDTHS = {"wide": 1280, "narrow": 400}
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
    assert names >= {"peers.svg", "report.png"}  # of benchmarks/, and of docs/
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


if browser_is_wanted():

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

    def test_of_a_console_block_the_commands_are_copied(window, site):
        window.open((site / "tutorial" / "first-ordered-stream.html").as_uri())
        window.evaluate("document.querySelector('.md-content pre > code').dataset.mdCopying = ''")
        copied = window.evaluate("document.querySelector('.md-content pre > code').innerText")
        assert copied.startswith("source .venv")
        assert "\norderly broker start" in copied
        assert "$" not in copied
