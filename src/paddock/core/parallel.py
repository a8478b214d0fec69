"""Running a verb for several agents at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

from paddock.base.errors import PaddockError, disk_full_error, is_full
from paddock.core.deployment import Deployment

Found = TypeVar("Found")
_LOOKING: Final = 8  # machines to look at, at the same time


def side_by_side(agents: Sequence[Deployment], look: Callable[[Deployment], Found]) -> list[Found]:
    """Look at several agents at once; return what was found, in the order of the agents. Nothing is changed."""
    if len(agents) == 1:
        return [look(agents[0])]
    with ThreadPoolExecutor(max_workers=_LOOKING) as pool:
        return list(pool.map(look, agents))


def each(agents: Sequence[Deployment], jobs: int, verb: Callable[[Deployment], str]) -> list[str]:
    """Run a verb for every agent and return the lines about the results. A failure does not stop the others.

    Model gateways go first, because the other agents need their addresses.
    """
    if len(agents) == 1:
        return [verb(agents[0])]

    def one(agent: Deployment) -> str:
        try:
            return verb(agent)
        finally:
            agent.reporter.finish()

    gateways = [agent for agent in agents if any(other.model_gateway is agent for other in agents)]
    running: list[tuple[Deployment, Future[str]]] = []
    for wave in (gateways, [agent for agent in agents if agent not in gateways]):
        pool = ThreadPoolExecutor(max_workers=max(jobs, 1))
        running += [(agent, pool.submit(one, agent)) for agent in wave]
        try:
            wait(future for _, future in running)
        finally:
            # Ctrl-C reaches this thread only. Agents that were not begun are left out, and no further step begins.
            pool.shutdown(wait=False, cancel_futures=True)
    told, failed = [], []
    for agent, future in running:
        error = future.exception()
        if error is None:
            told.append(future.result())
        elif isinstance(error, PaddockError):
            failed.append((agent.name, error))
        elif is_full(error):
            failed.append((agent.name, disk_full_error(error)))
        else:
            raise error
    if failed:
        raise together(told, failed)
    return told


def together(told: Sequence[str], failed: Sequence[tuple[str, PaddockError]]) -> PaddockError:
    """Return one error for those of several agents, with the lines about those that succeeded."""
    lines = [*told, *(f"{name}: {error.message}" for name, error in failed)]
    hints = [error.hint for _, error in failed if error.hint]
    whole = PaddockError("\n".join(lines), hint="\n".join(dict.fromkeys(hints)) or None)
    whole.exit_code = max(error.exit_code for _, error in failed)
    return whole
