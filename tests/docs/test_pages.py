"""Every code block of every page runs. Conventions: CONTRIBUTING.md, "Code in pages"."""

import pytest

from tests.docs.pages import CHINESE, ROOT, blocks_of, pages
from tests.docs.room import SURROUNDINGS, surroundings_of
from tests.docs.runner import OF_OTHERS, wrong_with
from tests.support.optional import param

MOST_SKIPPED = 5


NEEDS = {"docs/how-to/native.md": "cc", "docs/how-to/security.md": "openssl"}
PAGES = [param(page, NEEDS[page]) if page in NEEDS else page for page in pages()]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(page, tmp_path, request):
    if wrong := wrong_with(page, tmp_path, request):
        pytest.fail(wrong, pytrace=False)


def test_the_chinese_readme_has_the_same_blocks():
    ours, theirs = (
        [(block.tag, block.text, block.marks) for block in blocks_of(page)]
        for page in ("README.md", CHINESE)
    )
    assert theirs == ours


def test_few_blocks_are_skipped_and_each_says_why():
    blocks = [block for page in pages() for block in blocks_of(page)]
    skipped = [f"{b.where}: {b.marks['skip']}" for b in blocks if "skip" in b.marks]
    shown = [f"{b.where}: {b.tag}" for b in blocks if b.tag in OF_OTHERS]
    print(*skipped, *shown, sep="\n")
    assert len(skipped) <= MOST_SKIPPED, "\n".join(skipped)
    assert len(blocks) > 40


@pytest.mark.parametrize("page", pages())
def test_no_page_has_a_merge_that_was_not_finished(page):
    assert "\n<<<<<<< " not in (ROOT / page).read_text(encoding="utf-8")


def test_surroundings_belong_to_a_page():
    assert set(SURROUNDINGS.glob("*.py")) <= {surroundings_of(page) for page in pages()}
