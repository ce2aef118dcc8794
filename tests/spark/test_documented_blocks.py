"""Code blocks of the pages that need Spark (`<!-- block: spark -->`); tests/docs has the others."""

import pytest

from tests.docs.pages import blocks_of, pages
from tests.docs.runner import wrong_with

PAGES = [page for page in pages() if any("spark" in block.marks for block in blocks_of(page))]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_with_spark_runs(page, spark, tmp_path, request):
    if wrong := wrong_with(page, tmp_path, request, spark=True):
        pytest.fail(wrong, pytrace=False)
