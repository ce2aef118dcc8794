"""What Griffe, which reads the code for the API pages, is told; mkdocs.yml names this file."""

from __future__ import annotations

from typing import Any

import griffe

from docsite.docstrings import one_name_an_item


class SharedItems(griffe.Extension):
    """Items of several names become one for each: Griffe would take the second for a type."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change a docstring before it is parsed."""
        if obj.docstring:
            obj.docstring.value = one_name_an_item(obj.docstring.value)
