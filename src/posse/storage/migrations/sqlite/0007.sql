-- A fleet without a name was deleted, and its rows are on their way out.
--
-- A fleet with an absent reward counts a decision as that reward from the moment it is made, which is a change of its
-- own (counted), or holds rewards until the time to live is over (count_pending = 0): change stays NULL until then. It
-- takes one reward for a decision (once), adds several up (sum), or goes by the last (last), for reward_window seconds.
CREATE TABLE fleets (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  definition TEXT NOT NULL,
  time_to_live REAL,
  absent_reward REAL,
  count_pending INTEGER NOT NULL,
  reward_events TEXT NOT NULL,
  reward_window REAL,
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
  counted INTEGER,
  corrected INTEGER,
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
CREATE INDEX decisions_counted ON decisions (fleet, counted) WHERE counted IS NOT NULL;
CREATE INDEX decisions_held ON decisions (fleet, time, number) WHERE reward IS NOT NULL AND change IS NULL;
CREATE UNIQUE INDEX decisions_key ON decisions (fleet, key) WHERE key IS NOT NULL;

-- What came after the first reward of a decision, and corrections: each a change of its own. number is NULL if it is none,
-- as the first, which is part of its decision's row, or one that came while rewards are held. The decision's row has the
-- reward that counts, and in corrected the number of the last of these changes.
CREATE TABLE reward_events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  fleet INTEGER NOT NULL,
  decision TEXT NOT NULL,
  number INTEGER,
  event TEXT,
  kind TEXT NOT NULL,
  value REAL NOT NULL,
  reward REAL NOT NULL,
  old REAL,
  time REAL NOT NULL
);
CREATE UNIQUE INDEX reward_events_event ON reward_events (decision, event) WHERE event IS NOT NULL;
CREATE INDEX reward_events_decision ON reward_events (decision, id);
CREATE UNIQUE INDEX reward_events_number ON reward_events (fleet, number) WHERE number IS NOT NULL;
CREATE TRIGGER reward_events_gone AFTER DELETE ON decisions
  BEGIN DELETE FROM reward_events WHERE decision = old.id; END;

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

-- A key may be for some fleets only (their names, with spaces between; none means all), may expire, and was last used.
CREATE TABLE keys (
  id TEXT NOT NULL PRIMARY KEY,
  label TEXT NOT NULL,
  scopes TEXT NOT NULL,
  digest TEXT NOT NULL,
  created REAL NOT NULL,
  fleets TEXT NOT NULL,
  expires REAL,
  used REAL
);

-- Who asked for what that needs an admin; status is NULL until it is answered.
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  time REAL NOT NULL,
  actor TEXT NOT NULL,
  client TEXT,
  action TEXT NOT NULL,
  fleet TEXT,
  target TEXT,
  request TEXT,
  status INTEGER
);
CREATE INDEX audit_fleet ON audit (fleet, id);

-- When a service was last seen, and by how much its clock was put forward last: what a start compares its clock with.
CREATE TABLE clock (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  seen REAL NOT NULL,
  settled REAL NOT NULL,
  shift REAL NOT NULL
);

-- Rows of an erased task up to a number that are still there: nobody sees them any more, and they go in slices.
CREATE TABLE erasures (
  fleet INTEGER NOT NULL,
  task TEXT NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY (fleet, task, number)
) WITHOUT ROWID;
