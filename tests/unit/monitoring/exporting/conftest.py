"""Without a browser the page's test is not collected, unless in CI: there that is a failure."""

from tests.support.browser import is_wanted


def pytest_ignore_collect(collection_path, config):
    return True if collection_path.name == "test_page.py" and not is_wanted() else None
