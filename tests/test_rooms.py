"""The rooms, their arrows `web -> app -> store`, and what else is agreed about where things stand.

It reads the source and imports nothing, so it sees an arrow also where an import happens to work.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("app", "store", "web")

# The command is where the rooms are put together: it alone in `app` knows the edge, and imports it
# when it starts a server, so that the other commands do not pay for it.
COMPOSITION = ("app/__main__.py", "app/cli.py")

# Where a task may be started (docs/decisions/0002): the lifetime, the store's closer of batches
# (docs/decisions/0009), which outlives all that writes, the turns, a step's tool calls, the
# farewells to providers (nobody waits for them, so no turn can own them), a look at all models at
# once, the server's own connections.
NURSERIES = (
    "app/lifetime.py",
    "store/database.py",
    "app/turns/service.py",
    "app/turns/calls.py",
    "app/models/http.py",
    "app/models/reachability.py",
    "web/transport/*.py",
)

# Where any error may be caught, since each of these records it or hands it to whoever waits: the
# turns' supervisor, the writer's thread, the server's connections, and the farewells to providers,
# which hang beside everything else and must not end it.
BROAD_EXCEPTS = (
    "app/turns/supervisor.py",
    "app/models/http.py",
    "store/writer.py",
    "web/transport/*.py",
)

LONGEST_MODULE = 400
VAGUE_NAMES = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}

WEB_SERVERS = {"flask", "hypercorn", "quart", "quart_trio", "werkzeug"}
DATABASES = {"psycopg", "sqlalchemy", "sqlite3"}

# For each room, what it may not import.
FORBIDDEN = {
    "web": {"store"} | DATABASES,
    "app": WEB_SERVERS | DATABASES,
    "store": {"app", "web", "httpx2"} | WEB_SERVERS,
}


@dataclass(frozen=True)
class Import:
    name: str
    line: int
    # At the top of the module, so that whoever imports the module imports this too.
    at_once: bool

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]


class Module:
    """A source file; `name` is its path from the root."""

    def __init__(self, path: Path) -> None:
        self.name = path.relative_to(ROOT).as_posix()
        self.room = self.name.partition("/")[0]
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)

    def imports(self) -> Iterator[Import]:
        return imports_of(self.tree, package=self.name.rpartition("/")[0].replace("/", "."))

    def is_one_of(self, patterns: tuple[str, ...]) -> bool:
        return any(fnmatch(self.name, pattern) for pattern in patterns)


def imports_of(node: ast.AST, *, package: str, at_once: bool = True) -> Iterator[Import]:
    """All imports below a node; relative ones, seen from `package`, by their full name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, at_once)
        elif isinstance(child, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - child.level + 1]
            prefix = ".".join(base) if child.level else ""
            for alias in child.names:
                name = ".".join(filter(None, (prefix, child.module, alias.name)))
                yield Import(name, child.lineno, at_once)
        else:
            function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from imports_of(child, package=package, at_once=at_once and not function)


@cache
def modules() -> list[Module]:
    paths = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    return [Module(path) for path in paths if "node_modules" not in path.parts]


def page_sources() -> list[Path]:
    return sorted((ROOT / "web" / "client" / "src").rglob("*.js"))


def test_each_room_has_modules() -> None:
    """Nothing below is proved by an empty list."""
    assert {module.room for module in modules()} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_room_imports_only_downwards(room: str) -> None:
    wrong = [
        f"{module.name}:{found.line} imports {found.name}"
        for module in modules()
        if module.room == room
        for found in module.imports()
        if found.package in FORBIDDEN[room]
    ]
    assert wrong == []


def test_only_the_command_knows_the_edge_and_only_when_it_serves() -> None:
    wrong = [
        f"{module.name}:{found.line} imports {found.name}"
        for module in modules()
        if module.room == "app"
        for found in module.imports()
        if found.package == "web" and (found.at_once or not module.is_one_of(COMPOSITION))
    ]
    assert wrong == []


def test_store_knows_trio_only_at_its_seam() -> None:
    wrong = [
        module.name
        for module in modules()
        if module.room == "store" and module.name != "store/database.py"
        if any(found.package == "trio" for found in module.imports())
    ]
    assert wrong == []


def test_nothing_imports_the_tests_or_the_scripts() -> None:
    wrong = [
        f"{module.name}:{found.line} imports {found.name}"
        for module in modules()
        for found in module.imports()
        if found.package in {"tests", "scripts"}
    ]
    assert wrong == []


def test_nurseries_are_opened_only_where_agreed() -> None:
    wrong = [
        f"{module.name}:{node.lineno}"
        for module in modules()
        if not module.is_one_of(NURSERIES)
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Attribute) and node.attr == "open_nursery")
        or (isinstance(node, ast.Name) and node.id == "open_nursery")
    ]
    assert wrong == []


def test_broad_excepts_stand_only_where_agreed() -> None:
    wrong = [
        f"{module.name}:{node.lineno}"
        for module in modules()
        if not module.is_one_of(BROAD_EXCEPTS)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and catches_everything(node)
    ]
    assert wrong == []


def catches_everything(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return not names.isdisjoint({"Exception", "BaseException", "ExceptionGroup"})


def test_no_module_is_longer_than_one_can_read() -> None:
    lengths = {module.name: module.text.count("\n") for module in modules()}
    for path in page_sources():
        lengths[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8").count("\n")
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_files_are_named_for_what_they_own() -> None:
    names = [module.name for module in modules()]
    names += [path.relative_to(ROOT).as_posix() for path in page_sources()]
    names += [path.relative_to(ROOT).as_posix() for path in (ROOT / "scripts").iterdir()]
    wrong = [name for name in names if not VAGUE_NAMES.isdisjoint(Path(name).with_suffix("").parts)]
    assert wrong == []


# The reader of imports, which all of the above trusts


def read(text: str, package: str = "app.turns") -> list[tuple[str, bool]]:
    return [(found.name, found.at_once) for found in imports_of(ast.parse(text), package=package)]


def test_every_form_of_import_is_seen() -> None:
    assert read("import store.database as db, trio") == [("store.database", True), ("trio", True)]
    assert read("from store import turns, errors") == [
        ("store.turns", True),
        ("store.errors", True),
    ]
    assert read("from . import state") == [("app.turns.state", True)]
    assert read("from ..models.sse import decode") == [("app.models.sse.decode", True)]
    assert read("from ... import web", package="app.turns") == [("web", True)]


def test_imports_inside_blocks_and_functions_are_seen() -> None:
    assert read("if TYPE_CHECKING:\n  import web") == [("web", True)]
    assert read("try:\n  import web\nexcept ImportError:\n  import store") == [
        ("web", True),
        ("store", True),
    ]
    assert read("class A:\n  import web") == [("web", True)]
    assert read("def f():\n  if x:\n    from web import edge") == [("web.edge", False)]
    assert read("async def f():\n  import web") == [("web", False)]


@pytest.mark.parametrize(
    ("clause", "broad"),
    [
        ("except:", True),
        ("except Exception:", True),
        ("except BaseException as e:", True),
        ("except (ValueError, Exception):", True),
        ("except* ExceptionGroup:", True),
        ("except ValueError:", False),
        ("except trio.Cancelled:", False),
    ],
)
def test_broad_clauses_are_recognised(clause: str, broad: bool) -> None:
    tree = ast.parse(f"try:\n  x\n{clause}\n  raise")
    (handler,) = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    assert catches_everything(handler) is broad
