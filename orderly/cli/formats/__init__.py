"""How a command prints what it found: one table of writers for all formats.

A command makes an `Answer`; `format_options` adds -o, --no-headers and --raw; `show` prints. What
is not known is `-` in a table, empty in CSV, null in JSON and YAML, and absent in metrics.
"""

from orderly.cli.formats.answer import Answer, Column, Kind, Style
from orderly.cli.formats.options import Format, format_options, show, written

__all__ = ["Answer", "Column", "Format", "Kind", "Style", "format_options", "show", "written"]
