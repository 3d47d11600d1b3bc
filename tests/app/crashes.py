"""What `kill -9` leaves: the files of the database as they are at some moment.

A process that is killed takes back nothing it wrote and finishes nothing it began, so the moments
that differ are those after each commit. A restart is a world on such an image.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from store.database import Batch, Database
from tests.app.world import World


def image(path: Path, folder: Path) -> Path:
    """Copy the database at `path` into a new folder. Returns the path of the copy."""
    folder.mkdir(parents=True)
    for name in (path.name, f"{path.name}-wal"):
        if (source := path.with_name(name)).exists():
            shutil.copy(source, folder / name)
    return folder / path.name


def cut_log(path: Path, size: int) -> None:
    """A power cut: of the log of the database only the first `size` bytes had reached the disk."""
    with open(f"{path}-wal", "r+b") as file:
        file.truncate(size)


async def crash(world: World, name: str) -> Path:
    """The image of this moment, once everything that was handed over is on record."""
    await world.services.database.write(lambda _: None)
    return image(world.path, world.path.parent / name)


@contextmanager
def images(database: Database, folder: Path, limit: int = 1_000) -> Iterator[list[Path]]:
    """Images of the moments after each of the next `limit` commits. For inline databases."""
    taken: list[Path] = []
    writer: Any = database._writer
    commit = writer.commit

    def commit_and_copy(batch: Batch) -> None:
        commit(batch)
        if batch.error is None and len(taken) < limit:
            taken.append(image(database.path, folder / f"{len(taken):03d}"))

    writer.commit = commit_and_copy
    try:
        yield taken
    finally:
        writer.commit = commit
