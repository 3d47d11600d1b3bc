"""The tables: the only place a table or a column is spelled.

Times are milliseconds since 1970. JSON is stored as the bytes that were made once; nothing here is
queried by its inside. Numbers (not the public ids) join the hot tables: they are 20 bytes shorter.
Those of turns and streams are never used again, also after a deletion: a writer that does not know
yet that its stream is gone must not find another one there (R3).
"""

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    event,
)

metadata = MetaData()

# SQLite makes only a column of type INTEGER the rowid's alias.
Number = BigInteger().with_variant(Integer, "sqlite")

# The ledger of migrations: each row is committed with the change it stands for.
migration = Table(
    "migration",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("applied_at", BigInteger, nullable=False),
)

thread = Table(
    "thread",
    metadata,
    Column("id", Text, primary_key=True),  # minted by the client
    Column("title", Text, nullable=False),
    Column("leaf", Text),  # end of the selected branch; NULL only before the first message
    Column("version", BigInteger, nullable=False),  # +1 with every change a list could show
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),  # orders the list
    Column("pinned", Integer, nullable=False),  # 1: before all others in the list
    Column("model", Text),  # chosen for this thread; NULL: the default of the day
    Column("instructions", Text),  # what every request of this thread begins with; NULL: nothing
    Index("thread_listed", "pinned", "updated_at", "id"),
)

message = Table(
    "message",
    metadata,
    Column("number", Number, primary_key=True),  # the order they were made in
    Column("id", Text, nullable=False, unique=True),
    Column("thread", Text, ForeignKey("thread.id", ondelete="CASCADE"), nullable=False),
    Column("parent", Text),  # NULL: the first of a branch
    Column("role", Text, nullable=False),  # user, assistant
    Column("parts", LargeBinary, nullable=False),  # JSON array; "[]" until the turn has ended
    Column("created_at", BigInteger, nullable=False),
    Index("message_thread", "thread", "number"),
)

turn = Table(
    "turn",
    metadata,
    Column("number", Number, primary_key=True),
    Column("id", Text, nullable=False, unique=True),  # also the id of the answer's message
    Column("thread", Text, ForeignKey("thread.id", ondelete="CASCADE"), nullable=False),
    Column("question", Text, nullable=False),  # the message it answers
    Column("key", Text, nullable=False, unique=True),  # the client's id: makes asking idempotent
    Column("state", Text, nullable=False),
    Column("position", BigInteger, nullable=False),  # order among the queued ones of a thread
    Column("model", Text, nullable=False),  # the configured name
    Column("instructions", Text),  # the thread's when it was asked; NULL: none
    Column("stream", Number, nullable=False),  # the stream of its present life
    Column("recoveries", Integer, nullable=False),  # crashes it went through (R2)
    Column("released", Integer, nullable=False),  # 1: given up by a clean shutdown, not by a crash
    Column("cancel_requested_at", BigInteger),  # NULL: nobody asked; survives a crash
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),  # NULL while it has never run
    Column("deadline_at", BigInteger),  # NULL: not started, or no deadline
    Column("ended_at", BigInteger),  # NULL: queued or running
    Column("outcome", LargeBinary),  # JSON of the outcome event; NULL until ended
    Index("turn_thread", "thread", "number"),
    sqlite_autoincrement=True,
)
Index("turn_open", turn.c.thread, turn.c.position, sqlite_where=turn.c.ended_at.is_(None))

# One completed model response of a turn, as the next request must repeat it, verbatim.
step = Table(
    "step",
    metadata,
    Column("turn", Number, ForeignKey("turn.number", ondelete="CASCADE"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),  # 0, 1, 2 …
    Column("record", LargeBinary, nullable=False),  # JSON, with the provider's opaque state
)

stream = Table(
    "stream",
    metadata,
    Column("number", Number, primary_key=True),
    Column("id", Text, nullable=False, unique=True),  # random, 128 bits or more
    Column("turn", Number, ForeignKey("turn.number", ondelete="CASCADE"), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),  # NULL: its writer may append
    Column("successor", Number),  # NULL: not superseded
    Column("pruned", Integer, nullable=False),  # 1: its segments are gone, retention is over (L8)
    # What the model's provider needs to go on with the response that was under way at the newest
    # segment; NULL or empty: there is none, it can only be asked again.
    Column("checkpoint", LargeBinary),
    Index("stream_turn", "turn"),
    sqlite_autoincrement=True,
)

# The events of one commit of one stream: ready-to-send SSE frames. Keyed by the LAST seq, so that
# "after a cursor" is one index range. A rowid table with a unique index: WITHOUT ROWID would
# rewrite a 4 KiB leaf per live stream and commit.
segment = Table(
    "segment",
    metadata,
    Column("number", Number, primary_key=True),
    Column("stream", Number, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("events", Integer, nullable=False),  # how many; the first is last_seq - events + 1
    Column("frames", LargeBinary, nullable=False),
    Index("segment_stream_seq", "stream", "last_seq", unique=True),
)

# "Stop" for a message whose POST has not arrived yet.
cancel_intent = Table(
    "cancel_intent",
    metadata,
    Column("message", Text, primary_key=True),
    Column("thread", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# What a person attached. The bytes are here and not in the message, which every list and snapshot
# would have to carry; they come last, so that nobody reads past them for another column.
attachment = Table(
    "attachment",
    metadata,
    Column("id", Text, primary_key=True),  # minted by the client
    Column("name", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("size", BigInteger, nullable=False),  # bytes
    Column("created_at", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("attachment_age", "created_at", "id"),
)

# Which threads have messages that name a file. It is deleted with the last of them; one that has no
# row here was never sent.
attachment_use = Table(
    "attachment_use",
    metadata,
    Column("attachment", Text, ForeignKey("attachment.id", ondelete="CASCADE"), primary_key=True),
    Column("thread", Text, ForeignKey("thread.id", ondelete="CASCADE"), primary_key=True),
    Index("attachment_use_thread", "thread"),
    sqlite_with_rowid=False,
)

# The words of messages, by their numbers: what store/search.py puts in and finds.
event.listen(
    metadata,
    "after_create",
    DDL("CREATE VIRTUAL TABLE message_text USING fts5(text, tokenize='trigram')"),  # type: ignore[no-untyped-call]
)
