"""An example's page has its files below it."""

import textwrap

import pytest

from docsite.example_code import shown


@pytest.fixture
def examples(tmp_path):
    folder = tmp_path / "examples"
    for name, text in {
        "alone.py": "print(1)\n",
        "README.md": "# Examples\n",
        "shop/README.md": "# Shop\n",
        "shop/empty/__init__.py": "",
        "shop/orders/app.py": "def f():\n\n    return 1\n",
        "shop/k8s.yaml": "kind: Deployment\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_all_files_of_an_example_are_shown_whole(examples):
    assert shown(examples / "shop") == textwrap.dedent("""\
        ## Files

        ??? quote "k8s.yaml"

            ~~~~yaml
            kind: Deployment
            ~~~~

        ??? quote "orders/app.py"

            ~~~~python
            def f():

                return 1
            ~~~~""")


def test_the_page_of_all_examples_shows_those_that_are_one_file(examples):
    assert '"alone.py"' in shown(examples)
    assert "orders/app.py" not in shown(examples)
