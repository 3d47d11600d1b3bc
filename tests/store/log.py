"""The writing end of a stream without app: what the database asks of it, and nothing else."""

from store.database import Database
from store.errors import StoreError
from store.segments import Segment
from tests.store.rows import frames


class Log:
    """Implements store.database.Appender; events are numbers."""

    def __init__(self, database: Database, stream: int) -> None:
        self.stream = stream
        self.durable = 0
        self.pending = 0
        self.segments: list[Segment] = []
        self.errors: list[StoreError] = []
        self._database = database

    def put(self, events: int = 1) -> None:
        self.pending += events
        self._database.mark(self)

    def take(self) -> list[Segment]:
        if not self.pending:
            return []
        last = self.durable + self.pending
        segment = Segment(self.stream, last, self.pending, frames(self.durable + 1, last))
        self.pending = 0
        return [segment]

    def committed(self, segment: Segment) -> None:
        assert segment.last_seq - segment.events == self.durable
        self.durable = segment.last_seq
        self.segments.append(segment)

    def failed(self, error: StoreError) -> None:
        self.errors.append(error)
