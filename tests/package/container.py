"""The container image, built from the Containerfile and run as the documentation says.

Not among the tests of a full run, since it takes minutes. As root, on a machine with debootstrap,
buildah, podman and runc: `scripts/test tests/package/container.py`. No registry is asked: the base
image is made here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.package.machines import debian_root

ROOT = Path(__file__).resolve().parents[2]
BASE = "docker.io/library/debian:bookworm-slim"
IMAGE = "localhost/unbroken:test"
USER = 10001
# What Debian's own slim image leaves out as well.
NOT_IN_SLIM = (
    "proc/*", "dev/*", "home/*", "data", "complete", "unbroken", "usr/share/doc/*",
    "usr/share/locale/*", "usr/share/man/*", "var/cache/apt/*", "var/lib/apt/lists/*",
)  # fmt: skip
LARGEST_BYTES = 130_000_000

pytestmark = pytest.mark.timeout(1200)


class Engine:
    """buildah and podman with a storage of their own. runc, since crun refuses hybrid cgroups."""

    def __init__(self, folder: Path) -> None:
        self.storage = [
            "--root", str(folder / "storage"), "--runroot", str(folder / "run"),
            "--storage-driver", "overlay",
        ]  # fmt: skip

    def podman(self, *arguments: str, check: bool = True) -> str:
        return self._run("podman", "--runtime", "runc", *self.storage, *arguments, check=check)

    def run_detached(self, *arguments: str) -> None:
        """Without pipes: the container's monitor keeps what it inherits open to its end."""
        command = ["podman", "--runtime", "runc", *self.storage, "run", "--detach", *arguments]
        quiet = subprocess.DEVNULL
        subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, check=True)

    def import_base(self) -> None:
        left_out = [f"--exclude=./{name}" for name in NOT_IN_SLIM]
        archive = ["tar", "-C", str(debian_root("bookworm")), *left_out, "-c", "."]
        with subprocess.Popen(archive, stdout=subprocess.PIPE) as tar:
            command = ["podman", *self.storage, "import", "-", BASE]
            subprocess.run(command, stdin=tar.stdout, check=True, capture_output=True)

    def build(self) -> None:
        head = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
        commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
        authorities = os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
        inside = "/run/authorities.crt"
        options = ["--volume", f"{authorities}:{inside}:ro", "--build-arg", f"COMMIT={commit}"]
        for name in ("SSL_CERT_FILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS"):
            options += ["--build-arg", f"{name}={inside}"]
        self._run(
            "buildah", *self.storage, "build", "--format", "docker", "--isolation", "chroot",
            "--pull=never", *options, "--tag", IMAGE, "--file", str(ROOT / "Containerfile"),
            str(ROOT),
        )  # fmt: skip

    def _run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(command, capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stderr[-4000:]
        return done.stdout.strip()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("containers")
    engine = Engine(folder)
    try:
        engine.import_base()
        engine.build()
        yield engine
    finally:
        engine.podman("rm", "--all", "--force", check=False)
        engine.podman("rmi", "--all", "--force", check=False)
        shutil.rmtree(folder, ignore_errors=True)


class Container:
    def __init__(self, engine: Engine, data: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        self.engine = engine
        self.data = data
        self.link = ""

    def start(self) -> None:
        """Nothing of it can be written to but its volume."""
        self.engine.run_detached(
            "--name", "unbroken", "--pull=never", "--network", "host",
            "--read-only", "--read-only-tmpfs=false", "--cap-drop=all",
            "--security-opt", "no-new-privileges", "--volume", f"{self.data}:/data",
            "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096",
            "--env", f"UNBROKEN_PORT={self.port}", "--env", "UNBROKEN_MODEL=demo", IMAGE,
        )  # fmt: skip
        ready = None
        while ready is None:  # the test has a limit
            assert self.state() == "running"
            ready = re.search(r"Unbroken is ready at (\S+)", self.engine.podman("logs", "unbroken"))
        self.link = ready[1]

    def state(self) -> str:
        return self.engine.podman("inspect", "unbroken", "--format", "{{.State.Status}}")

    def execute(self, *command: str) -> str:
        return self.engine.podman("exec", "unbroken", *command)

    def stop(self) -> int:
        """As `docker stop`; returns the exit code."""
        self.engine.podman("stop", "--time", "10", "unbroken")
        return int(self.engine.podman("inspect", "unbroken", "--format", "{{.State.ExitCode}}"))

    def remove(self) -> None:
        self.engine.podman("rm", "--force", "unbroken", check=False)

    def get(self, path: str, token: str) -> int:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture
def container(engine: Engine, tmp_path: Path) -> Iterator[Container]:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, USER, USER)
    container = Container(engine, data)
    container.start()
    yield container
    container.remove()


def test_image_is_small_and_says_how_it_is_run(engine: Engine) -> None:
    image = json.loads(engine.podman("inspect", IMAGE))[0]
    assert image["Size"] < LARGEST_BYTES
    config = image["Config"]
    assert config["User"] == f"{USER}:{USER}"
    assert list(config["Volumes"]) == ["/data"]
    assert config["StopSignal"] in ("SIGTERM", "15")
    assert image["Healthcheck"]["Test"] == ["CMD", "unbroken", "health"]


def test_it_knows_its_commit_and_has_neither_python_nor_node(engine: Engine) -> None:
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
    run = ["run", "--rm", "--pull=never", "--network", "none", "--read-only", *limits]
    head = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    assert f"commit {commit}" in engine.podman(*run, IMAGE, "--version")
    search = "ls /usr/bin /usr/local/bin | grep -E '^(python|node|npm)' || echo none"
    assert engine.podman(*run, "--entrypoint", "sh", IMAGE, "-c", search) == "none"


def test_it_serves_with_a_token_as_nobody_special_and_writes_only_its_volume(
    container: Container,
) -> None:
    token = container.link.partition("token=")[2]
    assert container.get("/", "") == 401
    assert container.get("/", token) == 200
    assert container.get("/api/threads", token) == 200
    assert container.get("/api/threads", "x" * 43) == 401
    assert container.execute("id", "-u") == str(USER)
    assert container.execute("unbroken", "send", "echo hello") == "hello"
    assert {path.name for path in container.data.iterdir()} >= {"unbroken.db", "access-token"}
    assert {path.stat().st_uid for path in container.data.iterdir()} == {USER}


def test_health_check_follows_the_server(container: Container) -> None:
    container.engine.podman("healthcheck", "run", "unbroken")
    status = ["inspect", "unbroken", "--format", "{{.State.Health.Status}}"]
    assert container.engine.podman(*status) == "healthy"
    assert container.execute("unbroken", "health") == "ok"


def test_stopped_it_ends_in_order_and_the_next_one_has_the_data(container: Container) -> None:
    assert container.execute("unbroken", "send", "echo kept") == "kept"
    assert container.stop() == 0
    container.remove()
    container.start()
    found = container.execute("unbroken", "send", "--whole", "echo again")
    assert found == "again"
    token = container.link.partition("token=")[2]
    url = f"http://127.0.0.1:{container.port}/api/threads"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as response:
        titles = {thread["title"] for thread in json.load(response)["threads"]}
    assert {"echo kept", "echo again"} <= titles


def test_a_running_turn_survives_the_end_of_its_container(container: Container) -> None:
    """Stopped in the middle of an answer: within Docker's ten seconds, and the next goes on."""
    token = container.link.partition("token=")[2]
    body = {"id": "message-1", "parts": [{"type": "text", "text": "long 8"}]}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    base = f"http://127.0.0.1:{container.port}/api/threads/thread-1"
    post = urllib.request.Request(f"{base}/messages", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(post, timeout=60) as response:
        stream = json.load(response)["stream"]
    assert container.stop() == 0
    container.remove()
    container.start()
    follow = urllib.request.Request(
        f"http://127.0.0.1:{container.port}/api/streams/{stream}",
        headers={**headers, "Accept": "text/event-stream"},
    )
    with urllib.request.urlopen(follow, timeout=120) as response:
        events = response.read().decode()
    assert '"outcome":"finished"' in events
