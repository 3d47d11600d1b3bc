"""The browser of the browser tests: found, or installed where that is possible."""

import os
import shutil
import subprocess

from step import SetupError, run, say

# Debian and Ubuntu, Fedora, Arch, Chrome's own packages.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def path() -> str:
    """The path of a Chromium for the browser tests, installed by apt where that is possible.

    `CHROME_BIN` chooses another.

    Raises:
        SetupError: There is none and it cannot be installed from here.
    """
    if (found := _find()) is not None:
        return found
    if shutil.which("apt-get") is not None and os.geteuid() == 0:
        say("Installing Chromium")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "-qq", "update"], env=quiet)
        install = ["apt-get", "-qq", "-y", "--no-install-recommends", "install", "chromium"]
        run(install, env=quiet, stdout=subprocess.DEVNULL)
        if (found := _find()) is not None:
            return found
    raise SetupError(
        "the browser tests need Chromium or Chrome, and none is here. Install it (on Debian: "
        "sudo apt install chromium), or name it by CHROME_BIN, or leave those tests out: "
        "scripts/test -m 'not browser'"
    )


def _find() -> str | None:
    if named := os.environ.get("CHROME_BIN"):
        return named
    for name in NAMES:
        if path := shutil.which(name):
            return path
    application = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
    return application if os.path.exists(application) else None
