"""A page from its first block to its last."""

import traceback

from tests.docs import console, data_blocks, python_blocks
from tests.docs.pages import BadPage, blocks_of
from tests.docs.room import Room

OF_OTHERS = {"java", "cpp", "c", "go", "rust", "html", "xml", "diff"}  # shown, to compare with
_RUNS = {"python": python_blocks.run, "console": console.run, "sh": console.run}


def wrong_with(page, folder, request, *, spark=False):
    """Run the blocks of a page, those that need Spark or all others; "" or what is wrong."""
    try:
        run_blocks(page, blocks_of(page), folder, request, spark=spark)
    except BadPage as error:
        cause = error.__cause__
        return f"{error}\n{''.join(traceback.format_exception(cause)) if cause else ''}"
    return ""


def run_blocks(page, blocks, folder, request, *, spark=False):
    """Run these blocks of a page, in their order."""
    blocks = [block for block in blocks if ("spark" in block.marks) == spark]
    room = Room(page, folder, request)
    if spark:
        room.names["spark"] = room.fixture("spark")
    try:
        for block in blocks:
            room.call("before", block)
            _run(room, block, blocks)
            room.call("after", block)
        python_blocks.run_files(room, [b for b in blocks if _is_test_file(b)])
        room.end()
    finally:
        room.close()


def _run(room, block, blocks):
    if "skip" in block.marks or block.tag in OF_OTHERS:
        return
    if block.file:
        path = room.folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(room.text(block), encoding="utf-8")
        if block.tag == "python" and not _is_test_file(block) and not _is_named(block, blocks):
            python_blocks.run_program(room, block)
        if block.tag == "python":
            return
    if block.tag not in _RUNS | data_blocks.KINDS:
        raise BadPage(f"{block.where}: nobody knows how to check {block.tag!r}; see runner.py")
    _RUNS.get(block.tag, data_blocks.check)(room, block)


def _is_test_file(block):
    return block.file.endswith(".py") and block.file.startswith(("test_", "conftest"))


def _is_named(block, blocks):
    """Whether a command or another block of the page uses the file."""
    module = block.file.removesuffix(".py")
    return any(
        module in other.text for other in blocks if other is not block and "skip" not in other.marks
    )
