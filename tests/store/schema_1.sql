CREATE TABLE migration (
	number INTEGER NOT NULL,
	applied_at BIGINT NOT NULL,
	PRIMARY KEY (number)
);
CREATE TABLE thread (
	id TEXT NOT NULL,
	title TEXT NOT NULL,
	leaf TEXT,
	version BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	pinned INTEGER NOT NULL,
	model TEXT,
	instructions TEXT,
	PRIMARY KEY (id)
);
CREATE INDEX thread_listed ON thread (pinned, updated_at, id);
CREATE TABLE segment (
	number INTEGER NOT NULL,
	stream INTEGER NOT NULL,
	last_seq BIGINT NOT NULL,
	events INTEGER NOT NULL,
	frames BLOB NOT NULL,
	PRIMARY KEY (number)
);
CREATE UNIQUE INDEX segment_stream_seq ON segment (stream, last_seq);
CREATE TABLE cancel_intent (
	message TEXT NOT NULL,
	thread TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (message)
);
CREATE TABLE message (
	number INTEGER NOT NULL,
	id TEXT NOT NULL,
	thread TEXT NOT NULL,
	parent TEXT,
	role TEXT NOT NULL,
	parts BLOB NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (number),
	UNIQUE (id),
	FOREIGN KEY(thread) REFERENCES thread (id) ON DELETE CASCADE
);
CREATE INDEX message_thread ON message (thread, number);
CREATE TABLE turn (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	id TEXT NOT NULL,
	thread TEXT NOT NULL,
	question TEXT NOT NULL,
	"key" TEXT NOT NULL,
	state TEXT NOT NULL,
	position BIGINT NOT NULL,
	model TEXT NOT NULL,
	instructions TEXT,
	stream INTEGER NOT NULL,
	recoveries INTEGER NOT NULL,
	released INTEGER NOT NULL,
	cancel_requested_at BIGINT,
	created_at BIGINT NOT NULL,
	started_at BIGINT,
	deadline_at BIGINT,
	ended_at BIGINT,
	outcome BLOB,
	UNIQUE (id),
	FOREIGN KEY(thread) REFERENCES thread (id) ON DELETE CASCADE,
	UNIQUE ("key")
);
CREATE INDEX turn_thread ON turn (thread, number);
CREATE INDEX turn_open ON turn (thread, position) WHERE ended_at IS NULL;
CREATE TABLE attachment (
	id TEXT NOT NULL,
	thread TEXT,
	name TEXT NOT NULL,
	media_type TEXT NOT NULL,
	size BIGINT NOT NULL,
	data BLOB NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(thread) REFERENCES thread (id) ON DELETE CASCADE
);
CREATE INDEX attachment_thread ON attachment (thread);
CREATE TABLE step (
	turn INTEGER NOT NULL,
	ordinal INTEGER NOT NULL,
	record BLOB NOT NULL,
	PRIMARY KEY (turn, ordinal),
	FOREIGN KEY(turn) REFERENCES turn (number) ON DELETE CASCADE
);
CREATE TABLE stream (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	id TEXT NOT NULL,
	turn INTEGER NOT NULL,
	created_at BIGINT NOT NULL,
	ended_at BIGINT,
	successor INTEGER,
	pruned INTEGER NOT NULL,
	checkpoint BLOB,
	UNIQUE (id),
	FOREIGN KEY(turn) REFERENCES turn (number) ON DELETE CASCADE
);
CREATE INDEX stream_turn ON stream (turn);
CREATE VIRTUAL TABLE message_text USING fts5(text, tokenize='trigram');
