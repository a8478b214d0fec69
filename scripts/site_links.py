"""Make links of the documentation work on the site as they work in the repository. mkdocs calls these functions.

Pages in docs/ link to files beside docs/ (`../examples/native.yaml`), and pages beside docs/ link into it. The site has
all of them in one tree: files beside docs/ get their path in the repository, and README.md is the page index.md.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ("CONTRIBUTING.md", "CHANGELOG.md", "src/pvebox/README.md")
FILES: Final = ("constraints.txt",)
FOLDERS: Final = ("examples",)
LINK: Final = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the files that are beside docs/ in the repository."""
    beside = [ROOT / name for name in (*PAGES, *FILES)] + [
        each for name in FOLDERS for each in (ROOT / name).rglob("*")
    ]
    for path in beside:
        if path.is_file() and (path.suffix != ".md" or path in beside[: len(PAGES)]):
            name = path.relative_to(ROOT).as_posix()
            files.append(File(name, str(ROOT), config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown: str, page: Any, **_others: Any) -> str:
    """Rewrite the links of a page from paths of the repository to paths of the site."""
    here = page.file.src_uri
    inside = here if here in PAGES else f"docs/{here}"

    def rewritten(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(inside), target))
        on_site = place_on_site(path)
        return f"{match[1]}{posixpath.relpath(on_site, posixpath.dirname(here) or '.')}{match[3]}"

    return LINK.sub(rewritten, markdown)


def place_on_site(path: str) -> str:
    """Return where a file of the repository is on the site."""
    if path == "README.md":
        return "index.md"
    if (ROOT / path).is_dir():  # a folder has no page; its first file stands for it
        path = min(each.relative_to(ROOT).as_posix() for each in (ROOT / path).iterdir() if each.is_file())
    return path.removeprefix("docs/")
