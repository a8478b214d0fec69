"""The recipe of Nous Research's Hermes Agent.

What `check` needs is here. All else is in modules of its own, which are imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, Final

from paddock.file.kinds import FileView, Mistake
from paddock.kinds import files as shipped
from paddock.kinds.code import Distribution, Tool, Toolchain
from paddock.kinds.files import merged
from paddock.kinds.hermes import connectors, keeping, mcp, providers, rules, settings
from paddock.kinds.hermes.spec import API_KEY, HermesSpec, Skills
from paddock.kinds.keeping import Keeping, Traces
from paddock.kinds.packaged import PackagedRecipe

if TYPE_CHECKING:
    from paddock.kinds.checks import Check
    from paddock.kinds.endpoints import ModelServer
    from paddock.kinds.hermes.api import HermesConversation
    from paddock.kinds.workload import Paths, Probes, Workload

# Its tools control a browser with this program: a binary from an npm package, which needs no Node.
_BROWSER: Final = Tool(
    "agent-browser",
    version="0.41.0",
    sha512="5c9b41a2e139fa01942b2654d423929a7c54e8c2889662c4da81321f3974a212d53a1b918f1f64a90f6f3aac62896fc66ef8b824f1783b3efbecc9f714688700",
    files={
        "x86_64": "package/bin/agent-browser-linux-x64",
        "aarch64": "package/bin/agent-browser-linux-arm64",
    },
)
_PINS: Final = "hermes_cli.managed_scope"  # the launcher needs it; a wheel or sources may be of a version without it
_MODULES: Final = {
    "matrix": ("mautrix.client", "aiosqlite", "asyncpg", "aiohttp_socks"),
    "mcp": ("mcp",),
    "messaging": ("telegram", "discord", "slack_bolt"),
    "anthropic": ("anthropic",),
    "azure-identity": ("azure.identity",),
    "bedrock": ("boto3",),
    "vertex": ("google.auth",),
}


class Hermes(PackagedRecipe[HermesSpec]):
    """The recipe of kind ``hermes``."""

    model = HermesSpec
    package = "hermes-agent"
    beside = ("aiohttp",)  # its API server imports it, but the package does not depend on it
    without = ("python-olm",)  # the encryption of the extra `matrix`; it would have to be compiled with libolm

    @property
    def locks(self) -> Traversable:
        return resources.files(__package__) / "locks"

    def validate(self, name: str, agent: HermesSpec, file: FileView) -> Iterator[Mistake]:
        yield from super().validate(name, agent, file)
        yield from rules.mistakes(name, agent, file)

    def settings_mistakes(self, agent: HermesSpec, given: Mapping[str, Any]) -> Iterator[Mistake]:
        yield from settings.mistakes(agent, given)
        yield from connectors.in_settings(agent, given)

    def packages(self, agent: HermesSpec) -> Sequence[str]:
        return (*agent.packages, *(("chromium",) if agent.browser else ()))

    def recommended_packages(self, agent: HermesSpec) -> Sequence[str]:
        # Without ffmpeg (for voice messages): installing it takes as long as everything else, and 580 MB.
        return ("git", "ripgrep")

    def extras(self, agent: HermesSpec) -> Iterator[str]:
        yield from connectors.extras(agent)
        if mcp.servers(agent):
            yield "mcp"
        yield from providers.extras(agent)

    def proof(self, wanted: Distribution) -> Sequence[str]:
        program = shipped.text("paddock.onboard.hermes", "proof.py")
        modules = [module for extra in wanted.extras for module in _MODULES.get(extra, ())]
        return ("-c", program, wanted.version, _PINS, *self.beside, *modules)

    def tools(self, agent: HermesSpec) -> Sequence[Tool]:
        return (_BROWSER,) if agent.browser else ()

    def toolchains(self, agent: HermesSpec) -> Sequence[Toolchain]:
        return mcp.toolchains(agent)

    def folders(self, agent: HermesSpec) -> Sequence[str]:
        # Hermes looks for them at the top of its venv, and copies new skills into its home when it starts.
        return ("skills", "optional-skills") if agent.skills is Skills.BUNDLED else ()

    def workload(self, agent: HermesSpec, paths: Paths, tree: str) -> Workload:
        from paddock.kinds.hermes.workload import workload

        return workload(agent, paths, tree, browser=_BROWSER.name)

    def probes(self, agent: HermesSpec, prompt: str, conversation: str) -> Probes:
        from paddock.kinds.hermes.api import probes

        return probes(agent, prompt, conversation)

    def conversation(self, agent: HermesSpec) -> HermesConversation:
        from paddock.kinds.hermes.api import HermesConversation

        return HermesConversation(agent.url("api_server"), API_KEY)

    def checks(self, agent: HermesSpec, name: str, paths: Paths) -> Sequence[Check]:
        from paddock.kinds.hermes.checks import every_check

        return every_check(agent, name, paths)

    def traces(self, agent: HermesSpec) -> Traces:
        return keeping.TRACES

    def keeping(self, agent: HermesSpec) -> Keeping:
        return keeping.keeping(agent)

    def harmless(self, agent: HermesSpec, model: str | None, ports: Mapping[str, int]) -> HermesSpec:
        return keeping.copy(agent, list(self.extras(agent)), model, ports)

    def using(self, agent: HermesSpec, server: ModelServer) -> HermesSpec:
        # Hermes sends a key to a provider custom:NAME; to a plain `custom` it sends none.
        given = agent.settings.get("model") or {}
        model = given if isinstance(given, dict) else {"default": given}
        provider = {"base_url": server.url, "key_env": server.key, "default_model": model.get("default")}
        ours = {
            "model": {"provider": f"custom:{server.name}"},
            "providers": {server.name: {name: value for name, value in provider.items() if value}},
        }
        return agent.model_copy(update={"settings": merged(ours, {**agent.settings, "model": model})})
