"""Parts of reference pages that are made from the code when the site is built.

A page says where with a line such as `<!-- generated: metrics group -->`: the name of a part, and
what it is asked for. A line below it in italics is for readers of the repository, and left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from docsite.reference import commands, errors, exits, judging, metrics, readme, settings

PARTS: Mapping[str, Callable[..., str]] = {
    "command-tree": commands.command_tree,
    "commands": commands.every_command,
    "common-options": commands.common_options,
    "error": errors.facts,
    "error-tree": errors.tree,
    "exit-codes": exits.by_command,
    "general-exit-codes": exits.general,
    "metrics": metrics.level,
    "readme": readme.section,
    "settings": settings.of_class,
    "thresholds": judging.thresholds,
}
_PLACE = re.compile(
    r"^<!-- generated: (?P<name>[\w-]+)(?P<words>( \S+)*) -->(\n_.*_)?$", re.MULTILINE
)


def expanded(markdown: str) -> str:
    """Return a page with all its parts put in.

    Raises:
        KeyError: there is no such part.
    """
    return _PLACE.sub(lambda found: PARTS[found["name"]](*found["words"].split()), markdown)
