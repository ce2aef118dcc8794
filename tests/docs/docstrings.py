"""Examples in docstrings, which the site's reference shows, as blocks."""

import ast
import re

from tests.docs.pages import ROOT, Block

_DOCUMENTED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_SECTIONS = re.compile(r"^\s*(?:Args|Attributes|Raises|Returns|Yields):$")
_CALL = re.compile(r"\w\(")


def examples():
    """All examples: name of what they explain -> (module, block)."""
    found = {}
    for path in sorted((ROOT / "orderly").rglob("*.py")):
        page = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, _DOCUMENTED) and (block := _example(page, node)):
                module = page.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                found[f"{module}.{node.name}"] = module, block
    return found


def _example(page, node):
    """The indented lines before a docstring's sections, if they are Python; else None."""
    if ast.get_docstring(node) is None:
        return None
    literal, indent = node.body[0].value, " " * (node.body[0].col_offset + 4)
    texts = {}
    for number, line in enumerate(literal.value.splitlines(), literal.lineno):
        if _SECTIONS.match(line):
            break
        if line.startswith(indent):
            texts[number] = line.removeprefix(indent)
    if not texts:
        return None
    first, last = min(texts), max(texts)
    text = "\n".join(texts.get(number, "") for number in range(first, last + 1)) + "\n"
    marks = {"ctrl-c": ""} if "consumer.wait()" in text else {}
    return Block(page, first, 1, "python", text, marks=marks) if _is_python(text) else None


def _is_python(text):
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return _CALL.search(text) is not None
