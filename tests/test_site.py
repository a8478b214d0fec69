"""The documentation as a site: every page is in it, every link works, and nothing is loaded from the network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]


def build(folder: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Build the site of a checkout into the folder."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=root, env=quiet, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_has_every_page_of_the_documentation(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {path.stem for path in site.glob("*.html")}
    assert (site / "examples/native.yaml").read_text() == (ROOT / "examples/native.yaml").read_text()


def test_every_link_of_the_site_leads_to_a_file_of_it(site: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # its links begin with /
            continue
        for target in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text()):
            if not target.startswith(("http://", "https://", "mailto:", "data:")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_site_loads_nothing_from_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link|iframe)\b[^>]*(?:src|href)="(https?:[^"]+)"', page.read_text())
        assert not loaded, page.name


def test_mistakes_in_the_documentation_fail_the_build(tmp_path: Path) -> None:
    for name in ("docs", "examples", "scripts", "src/pvebox"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for path in (ROOT / "mkdocs.yml", *ROOT.glob("*.md")):
        shutil.copy(path, tmp_path)
    (tmp_path / "docs/unlisted.md").write_text("# Not in the navigation\n")
    with (tmp_path / "docs/index.md").open("a") as page:
        page.write("\n[a](nowhere.md) [b](security.md#no-such-heading)\n")
    done = build(tmp_path / "site", root=tmp_path)
    assert done.returncode == 1
    for mistake in ("unlisted.md", "'nowhere.md'", "no-such-heading"):
        assert mistake in done.stderr
