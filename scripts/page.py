"""Builds the page: web/client, by Node, into web/static."""

import json
import re
import shutil
import subprocess

import page_licences
from step import CACHE, CLIENT, PAGE, ROOT, SetupError, Stamp, digest, run, say

# What Vite 8 asks for; older ones fail with a stack trace instead of a sentence.
OLDEST_NODE = (20, 19)


def is_built() -> bool:
    """Whether web/static was built from exactly what is in web/client now."""
    return _page_stamp().holds() and _has_page()


def build() -> None:
    """Install the page's packages, if they changed, and build it into web/static.

    Raises:
        SetupError: Node is missing or too old, or the build failed.
    """
    check_node()
    stamp = _page_stamp()
    stamp.path.unlink(missing_ok=True)
    if not client_stamp().holds():
        install_client()
    say("Building the page")
    run(["npm", "run", "--silent", "build", "--", "--logLevel=warn"], cwd=CLIENT)
    if not _has_page():
        raise SetupError(f"npm run build left no page in {PAGE.relative_to(ROOT)}")
    (PAGE / "licences.json").write_text(json.dumps(page_licences.of(CLIENT)), encoding="utf-8")
    stamp.write()


def install_client() -> None:
    say("Installing the packages of the page")
    run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=CLIENT)
    client_stamp().write()


def client_stamp() -> Stamp:
    # `npm ci` empties the folder first, so the stamp in it goes with what it speaks of.
    inputs = CLIENT / "package.json", CLIENT / "package-lock.json"
    return Stamp(CLIENT / "node_modules" / ".stamp", digest(*inputs))


def _page_stamp() -> Stamp:
    return Stamp(CACHE / "page.stamp", digest(CLIENT, ROOT / "scripts" / "page_licences.py"))


def _has_page() -> bool:
    return (PAGE / ".vite" / "manifest.json").exists() or (PAGE / "index.html").exists()


def check_node() -> None:
    """Raises SetupError, with what to do, where Node cannot build the page."""
    if (problem := node_problem()) is not None:
        raise SetupError(problem)


def node_problem() -> str | None:
    """What is wrong with this machine's Node; None: nothing."""
    wanted = ".".join(map(str, OLDEST_NODE))
    if shutil.which("npm") is None or shutil.which("node") is None:
        return (
            f"Node.js with npm is missing, which builds the page. Install Node {wanted} or newer "
            "(on Debian and Ubuntu: apt install nodejs npm) and start this again."
        )
    text = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.(\d+)", text)
    if found and (int(found[1]), int(found[2])) < OLDEST_NODE:
        return f"Node {wanted} or newer builds the page; this is {text.strip()}."
    return None
