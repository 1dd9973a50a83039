-- A fleet without a name was deleted, and its rows are on their way out.
CREATE TABLE fleets (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  definition TEXT NOT NULL,
  time_to_live REAL,
  created REAL NOT NULL,
  number INTEGER NOT NULL DEFAULT 0,
  tasks INTEGER NOT NULL DEFAULT 0,
  decisions INTEGER NOT NULL DEFAULT 0,
  rewards INTEGER NOT NULL DEFAULT 0,
  pending INTEGER NOT NULL DEFAULT 0,
  changes INTEGER NOT NULL DEFAULT 0,
  erasure INTEGER NOT NULL DEFAULT 0
);

-- The long column comes last: what stands behind it would be slow to reach.
CREATE TABLE decisions (
  id TEXT NOT NULL PRIMARY KEY,
  fleet INTEGER NOT NULL,
  number INTEGER NOT NULL,
  time REAL NOT NULL,
  state INTEGER NOT NULL DEFAULT 0,
  change INTEGER,
  reward REAL,
  reward_time REAL,
  task TEXT NOT NULL,
  arm TEXT NOT NULL,
  propensity REAL NOT NULL,
  policy TEXT NOT NULL,
  version TEXT NOT NULL,
  key TEXT,
  digest TEXT NOT NULL,
  body TEXT NOT NULL
);
CREATE UNIQUE INDEX decisions_number ON decisions (fleet, number);
CREATE INDEX decisions_task ON decisions (fleet, task, number);
CREATE INDEX decisions_state ON decisions (fleet, state, time, number);
CREATE INDEX decisions_change ON decisions (fleet, change) WHERE change IS NOT NULL;
CREATE UNIQUE INDEX decisions_key ON decisions (fleet, key) WHERE key IS NOT NULL;

CREATE TABLE tasks (
  fleet INTEGER NOT NULL,
  task TEXT NOT NULL,
  folded TEXT NOT NULL,
  first_time REAL NOT NULL,
  decisions INTEGER NOT NULL,
  rewards INTEGER NOT NULL,
  PRIMARY KEY (fleet, task)
) WITHOUT ROWID;

CREATE TABLE changes (
  fleet INTEGER NOT NULL REFERENCES fleets (id),
  number INTEGER NOT NULL,
  kind TEXT NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (fleet, number)
);

CREATE TABLE activity (
  fleet INTEGER NOT NULL,
  minute INTEGER NOT NULL,
  decisions INTEGER NOT NULL,
  rewards INTEGER NOT NULL,
  reward_sum REAL NOT NULL,
  PRIMARY KEY (fleet, minute)
) WITHOUT ROWID;

CREATE TABLE snapshots (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  fleet INTEGER NOT NULL REFERENCES fleets (id),
  number INTEGER NOT NULL,
  time REAL NOT NULL,
  finished INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX snapshots_fleet ON snapshots (fleet, number);

CREATE TABLE snapshot_parts (
  snapshot INTEGER NOT NULL REFERENCES snapshots (id),
  part INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (snapshot, part)
);

CREATE TABLE keys (
  id TEXT NOT NULL PRIMARY KEY,
  label TEXT NOT NULL,
  scopes TEXT NOT NULL,
  digest TEXT NOT NULL,
  created REAL NOT NULL
);
