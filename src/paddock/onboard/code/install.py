"""Unpack a tree of code into the store, and prove that its programs work.

Its packages are third-party code. Root only reads them, with an isolated Python (-I -S): the tree's own Python would
run the .pth files of its packages. The proof runs them as nobody and without a network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress

from paddock.onboard.agent import Agent, settings
from paddock.onboard.files import link, locked, make_folder, names, remove_tree, write
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.programs import environment, is_root, must, run
from paddock.onboard.program.refusal import FAILED, Refusal
from paddock.onboard.state.version import installed_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload

_NOBODY = 65534
_UNREACHABLE = 77
# Arguments: PROGRAM [ARGUMENT...]. With a program alone, it ends with 77 if nobody could not run that program.
_AS_NOBODY = f"""import os, sys
os.setgroups([])
os.setgid({_NOBODY})
os.setuid({_NOBODY})
if len(sys.argv) == 2:
    sys.exit(0 if os.access(sys.argv[1], os.X_OK) else {_UNREACHABLE})
os.execv(sys.argv[1], sys.argv[1:])"""
_ENTRY_POINTS = """import importlib.metadata, os, sys
name, packages, bin, python = sys.argv[1:]
found = next(iter(importlib.metadata.distributions(name=name, path=[packages])))
for entry in found.entry_points.select(group="console_scripts"):
    with open(f"{bin}/{entry.name}", "w") as program:
        print(f"#!{python}\\nimport sys\\nfrom {entry.module} import {entry.attr}\\nsys.exit({entry.attr}())",
        file=program)
    os.chmod(program.name, 0o755)"""


@frozen
class InstallTree:
    """Install a tree from an archive of packages, the payload.

    It gets its name, and then its manifest, only when it is complete. The agent, if there is one, gets its link first,
    so that no other run prunes the tree.
    """

    store: str
    tree: str
    agent: str  # the id of the agent that needs it; empty in a template
    distribution: str  # the package that brings the programs
    python: str
    proof: tuple[str, ...]  # arguments of Python

    def perform(self, payload: Payload) -> None:
        os.umask(0o022)
        top, final, new = os.path.dirname(self.store), f"{self.store}/{self.tree}", f"{self.store}/.new"
        make_folder(self.store)
        with locked(top, "", wait=None):
            if self.agent:
                make_folder(f"{top}/{self.agent}")
                link(f"../{os.path.basename(self.store)}/{self.tree}", f"{top}/{self.agent}/{self.tree}")
            remove_tree(new)
            try:
                self._build(new, payload)
                prove(f"{new}/bin/python", self.python, self.proof)
                remove_tree(final)
                os.rename(new, final)
            finally:
                remove_tree(new)  # an incomplete tree takes no space
            self._keep_python(final)
            write(f"{final}/manifest", f"{self.tree}\n", 0o644)

    def _build(self, new: str, payload: Payload) -> None:
        must([self.python, "-I", "-m", "venv", "--without-pip", new])
        packages = next(f"{new}/lib/{name}/site-packages" for name in names(f"{new}/lib"))
        with subprocess.Popen(
            ["tar", "-xzf", "-", "-C", packages, "--no-same-owner"], stdin=subprocess.PIPE, env=environment()
        ) as tar:
            assert tar.stdin is not None  # noqa: S101
            while block := payload.read(1 << 20):
                tar.stdin.write(block)
            tar.stdin.close()
        if tar.returncode:
            raise Refusal("the archive of the code cannot be unpacked", FAILED)
        for hidden, folder in ((".bin", "bin"), (".data", "")):
            for name in names(f"{packages}/{hidden}"):
                os.rename(f"{packages}/{hidden}/{name}", os.path.join(new, folder, name))
            if os.path.isdir(f"{packages}/{hidden}"):
                os.rmdir(f"{packages}/{hidden}")
        isolated = [self.python, "-I", "-S"]
        run([*isolated, "-m", "compileall", "-q", "-j", "0", packages], seconds=600)  # some files are for other Pythons
        must(
            [
                *isolated,
                "-B",
                "-c",
                _ENTRY_POINTS,
                self.distribution,
                packages,
                f"{new}/bin",
                f"{self.store}/{self.tree}/bin/python",
            ]
        )

    def _keep_python(self, final: str) -> None:
        """Keep Nix from deleting the Python, which nothing refers to. It knows this link by its final path."""
        if self.python.startswith("/nix/store/"):
            kept = "/".join(self.python.split("/")[:4])
            must(["nix-store", "--realise", kept, "--add-root", f"{final}/nix-root", "--indirect"])


@frozen
class TryTree:
    """Prove that a tree that is installed already works in this container."""

    tree: str  # its path
    proof: tuple[str, ...]

    def perform(self, _: Payload) -> None:
        # With -I -S it reads nothing of the tree.
        python = f"{self.tree}/bin/python"
        prove(python, python, self.proof)


def prove(program: str, python: str, proof: tuple[str, ...]) -> None:
    """Run Python of a tree as nobody, without a network; all its processes end with it.

    A throwaway container has no network anyway. A tree that only its owner can reach runs as its owner: an account, or
    root for the runtime `process`.
    """
    throwaway = "THROWAWAY" in os.environ  # a container that is removed afterwards
    with tempfile.TemporaryDirectory() as home:  # an import must not write to the person's home
        argv = [program, "-B", *proof]
        if is_root():
            with suppress(OSError):  # a container without root may not have this user: the next check finds out
                os.chown(home, _NOBODY, _NOBODY)
            as_nobody = [python, "-I", "-S", "-c", _AS_NOBODY]
            reached = run([*as_nobody, program]).code
            if reached == 0:
                argv = [*as_nobody, *argv]
            elif not throwaway and (reached != _UNREACHABLE or program.startswith("/opt/paddock/")):
                raise Refusal(f"other accounts cannot reach {program}: give the directories above it mode 755", FAILED)
            alone = ["unshare", "--net", "--pid", "--fork", "--kill-child"]
            if not throwaway:
                if run([*alone, "true"]).ok:
                    argv = [*alone, *argv]
                else:
                    print(
                        "this machine has no network namespaces: the code was tested with access to the network",
                        file=sys.stderr,
                    )
        done = run(argv, seconds=280, shown=True, env=environment(HOME=home), cwd=home)
        if not done.ok:
            print(done.err or f"the proof of the code failed with code {done.code}", file=sys.stderr)
            raise Refusal("", FAILED)  # the reason is what the proof has printed


@frozen
class ReportVersion:
    """Report the version of a Python package in the tree that the current bundle names; nothing if there is none."""

    agent: Agent
    distribution: str

    def perform(self, _: Payload) -> str:
        tree = settings(self.agent.current).get("TREE")
        return installed_version(f"{self.agent.store}/{tree}", self.distribution) if tree else ""
