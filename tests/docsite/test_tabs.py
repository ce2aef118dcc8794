"""Ways to do the same become tabs; what stands around them stays."""

import pytest

from docsite.tabs import tabbed

PAGE = """\
Before.

<!-- tabs -->
**Threads**

```python
def f():

    pass
```

**asyncio**

Text.
<!-- /tabs -->

**After**
"""


def test_titles_become_tabs_and_what_is_below_is_inside():
    assert (
        tabbed(PAGE)
        == """\
Before.

=== "Threads"

    ```python
    def f():

        pass
    ```

=== "asyncio"

    Text.

**After**
"""
    )


@pytest.mark.parametrize("inside", ["", "Text.\n", "**One**\n\nText.\n", "T\n**A**\n\n**B**\n"])
def test_what_is_no_choice_is_refused(inside):
    with pytest.raises(ValueError, match="two or more"):
        tabbed(f"<!-- tabs -->\n{inside}<!-- /tabs -->")


def test_a_page_without_any_stays():
    assert tabbed("**A**\n\n<!-- tabs -->") == "**A**\n\n<!-- tabs -->"
