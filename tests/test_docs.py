"""What the docs say exists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import offmap
from offmap.inference import METHODS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readme_has_every_method_and_both_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert all(f"| `{name}` |" in text for name in METHODS)
    assert "make demo" in text
    assert "make test" in text


def test_the_readmes_python_uses_public_names() -> None:
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    compile(block.group(1), "README.md", "exec")
    names = re.search(r"from offmap import (.*)", block.group(1))
    assert names is not None
    assert all(hasattr(offmap, name.strip()) for name in names.group(1).split(","))


def test_every_public_name_can_be_imported() -> None:
    assert all(hasattr(offmap, name) for name in offmap.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_notation_names_files_that_define_the_name() -> None:
    rows = [line.split("|") for line in (ROOT / "docs" / "notation.md").read_text().splitlines() if ".py" in line]
    assert len(rows) > 15
    for row in rows:
        modules = [
            import_module("offmap." + file.strip().removesuffix(".py").replace("/", ".")) for file in row[4].split(",")
        ]
        first = re.findall(r"`([A-Za-z_]+)", row[2])[0]
        assert any(first in Path(str(module.__file__)).read_text() for module in modules), row


def test_contributing_is_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) < 40
