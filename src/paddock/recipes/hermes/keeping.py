"""What of Hermes' state is worth keeping, and where it is on machines that Paddock did not set up."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paddock.recipes.hermes import harmless
from paddock.recipes.hermes.spec import HOME, HermesSpec
from paddock.recipes.workload import Keeping, Messages, Traces

# Usual directories of Hermes' data, beside homes of accounts. The messaging process (`hermes gateway`) always writes
# gateway_state.json, also when its data is in another directory or in a container's volume.
TRACES: Final = Traces(
    directories=("/opt/hermes", "/opt/data", "/var/lib/hermes", "/srv/hermes", "/data/hermes"),
    names=(HOME, "gateway_state.json"),
    becomes=HOME,
    known_by=("config.yaml", ".env", "state.db"),  # as `hermes import` recognises a backup
    variable="HERMES_HOME",
    programs=("hermes",),
    environment_file=".env",
    rebuilt=(f"{HOME}/hermes-agent",),  # the code, where Hermes' own installer puts it
    wrappers=("hermes",),
    beside="_external",
)

# What starts by itself, lets others talk to the agent, or is a credential. Hermes reads settings from .env, config.yaml
# and gateway.json, and each profile is a home of its own.
_ACTING: Final = (
    *("cron", "hooks", "plugins", "scripts", "profiles", "active_profile", "processes.json", ".restart_*", ".update_*"),
    *("auth.json", "mcp-tokens", "mcp-installs", "*oauth*.json", "*token*.json", "honcho.json", "hindsight"),
    *("byterover", "pairing", "platforms", "whatsapp", "webhook_subscriptions.json"),
    *(".env", ".op.env", "config.yaml", "gateway.json"),
)
_KEEPING: Final = Keeping(
    rebuilt=(
        *(f"{HOME}/{name}" for name in ("logs", "*_cache", "sandboxes", "bin", "checkpoints")),
        *(f"{HOME}/{name}" for name in ("gateway.pid", "gateway.lock", "**/*.lock")),
        *(".npm", ".cache/uv"),  # packages that npx and uvx have fetched
    ),
    texts=tuple(f"{HOME}/{name}" for name in ("SOUL.md", "memories/*.md", "skills/**/SKILL.md")),
    messages=Messages(f"{HOME}/state.db", "SELECT count(*) FROM messages WHERE timestamp > ?"),
    required=(f"{HOME}/state.db",),
    lasting=(f"{HOME}/*.db",),
    acting=tuple(f"{HOME}/{name}" for name in _ACTING),
)


def keeping(agent: HermesSpec) -> Keeping:
    """Return what of the agent's state is worth keeping."""
    return replace(_KEEPING, recalled=tuple(f"{HOME}/memories/{name}" for name in harmless.recalled(agent)))
