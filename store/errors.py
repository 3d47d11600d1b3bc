"""What the store raises. No exception of SQLAlchemy or sqlite3 crosses this room."""


class StoreError(Exception):
    """Base of all."""


class StoreUnavailableError(StoreError):
    """The database cannot be read or written now (disk full, read-only, gone); it may recover."""


class DatabaseInUseError(StoreError):
    """Another process holds this database. The text says which."""


class DatabaseTooNewError(StoreError):
    """The database was written by a newer version of the program."""


class StreamClosedError(StoreError):
    """The stream is sealed or ended: its one writer has lost it (R3)."""
