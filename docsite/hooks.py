"""What MkDocs calls while it builds the site; mkdocs.yml names this file."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docsite.example_code import shown
from docsite.links import Links
from docsite.outside import files_outside
from docsite.reference import expanded
from docsite.tabs import tabbed
from orderly import __version__

ROOT = Path(__file__).parents[1]
_LINKS = Links(ROOT)
_OPTION = re.compile(r"<code>(?=--?[a-z][\w-]*</code>)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Say at the head and the foot of each page which version it is of."""
    config.site_name = f"{config.site_name} {__version__}"
    config.copyright = f"{config.site_name}, Apache License 2.0"
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the files that lie outside of docs/."""
    for place, path in files_outside(ROOT).items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  MkDocs' signature
    """Put in what is made from the code, and make links lead to pages of the site."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]  # there is only itself in its section
    text = _LINKS.rewritten(tabbed(expanded(markdown)), page.file.src_uri)
    path = Path(page.file.abs_src_path or "")
    return f"{text}\n\n{shown(path.parent)}" if ROOT / "examples" in path.parents else text


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  MkDocs' signature
    """Mark options, which browsers would break after their hyphens."""
    return _OPTION.sub('<code class="option">', html)
