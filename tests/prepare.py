"""Build what the tests need built, once for a machine. `./test` calls this before it measures the time of the tests."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, as_completed

import prepared
from pvebox.cluster.fixture import DEFAULT_TEMPLATE
from pvebox.runtime.base import ensure_base


def main() -> None:
    ensure_base(DEFAULT_TEMPLATE)  # everything else is built from it
    with ProcessPoolExecutor() as pool:
        for done in as_completed([pool.submit(prepared.kept_node), pool.submit(prepared.official_image_archive)]):
            done.result()


if __name__ == "__main__":
    main()
