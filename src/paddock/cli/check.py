"""``paddock check``: is the file right?"""

from __future__ import annotations

from paddock.cli import app
from paddock.cli.options import DEFAULT_FILE, File


@app.command()
def check(file: File = DEFAULT_FILE) -> None:
    """Tell whether the file is right, without asking any place."""
    from paddock.spec.load import load

    spec = load(file).spec
    print(f"{file}: {len(spec.agents)} agent(s) in {len(spec.places)} place(s)")
