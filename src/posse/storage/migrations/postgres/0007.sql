-- A fleet without a name was deleted, and its rows are on their way out. Names sort by code point, as in SQLite.
--
-- A fleet with an absent reward counts a decision as that reward from the moment it is made, which is a change of its
-- own (counted), or holds rewards until the time to live is over (count_pending = 0): change stays NULL until then. It
-- takes one reward for a decision (once), adds several up (sum), or goes by the last (last), for reward_window seconds.
CREATE TABLE fleets (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" UNIQUE,
  definition text NOT NULL,
  time_to_live double precision,
  absent_reward double precision,
  count_pending smallint NOT NULL,
  reward_events text NOT NULL,
  reward_window double precision,
  created double precision NOT NULL,
  number bigint NOT NULL DEFAULT 0,
  tasks bigint NOT NULL DEFAULT 0,
  decisions bigint NOT NULL DEFAULT 0,
  rewards bigint NOT NULL DEFAULT 0,
  pending bigint NOT NULL DEFAULT 0,
  changes bigint NOT NULL DEFAULT 0,
  erasure bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE decisions (
  id text COLLATE "C" NOT NULL PRIMARY KEY,
  fleet bigint NOT NULL,
  number bigint NOT NULL,
  time double precision NOT NULL,
  state smallint NOT NULL DEFAULT 0,
  change bigint,
  counted bigint,
  corrected bigint,
  reward double precision,
  reward_time double precision,
  task text COLLATE "C" NOT NULL,
  arm text NOT NULL,
  propensity double precision NOT NULL,
  policy text NOT NULL,
  version text NOT NULL,
  key text COLLATE "C",
  digest text NOT NULL,
  body text NOT NULL
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
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  fleet bigint NOT NULL,
  decision text COLLATE "C" NOT NULL REFERENCES decisions (id) ON DELETE CASCADE,
  number bigint,
  event text COLLATE "C",
  kind text NOT NULL,
  value double precision NOT NULL,
  reward double precision NOT NULL,
  old double precision,
  time double precision NOT NULL
);
CREATE UNIQUE INDEX reward_events_event ON reward_events (decision, event) WHERE event IS NOT NULL;
CREATE INDEX reward_events_decision ON reward_events (decision, id);
CREATE UNIQUE INDEX reward_events_number ON reward_events (fleet, number) WHERE number IS NOT NULL;

CREATE TABLE tasks (
  fleet bigint NOT NULL,
  task text COLLATE "C" NOT NULL,
  folded text COLLATE "C" NOT NULL,
  first_time double precision NOT NULL,
  decisions bigint NOT NULL,
  rewards bigint NOT NULL,
  PRIMARY KEY (fleet, task)
) WITH (fillfactor = 70);

CREATE TABLE changes (
  fleet bigint NOT NULL REFERENCES fleets (id),
  number bigint NOT NULL,
  kind text NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (fleet, number)
);

CREATE TABLE activity (
  fleet bigint NOT NULL,
  minute bigint NOT NULL,
  decisions bigint NOT NULL,
  rewards bigint NOT NULL,
  reward_sum double precision NOT NULL,
  PRIMARY KEY (fleet, minute)
) WITH (fillfactor = 70);

CREATE TABLE snapshots (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  fleet bigint NOT NULL REFERENCES fleets (id),
  number bigint NOT NULL,
  time double precision NOT NULL,
  finished smallint NOT NULL DEFAULT 0
);
CREATE INDEX snapshots_fleet ON snapshots (fleet, number);

CREATE TABLE snapshot_parts (
  snapshot bigint NOT NULL REFERENCES snapshots (id),
  part bigint NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (snapshot, part)
);
ALTER TABLE snapshot_parts ALTER COLUMN data SET STORAGE EXTERNAL;

-- A key may be for some fleets only (their names, with spaces between; none means all), may expire, and was last used.
CREATE TABLE keys (
  id text COLLATE "C" NOT NULL PRIMARY KEY,
  label text NOT NULL,
  scopes text NOT NULL,
  digest text NOT NULL,
  created double precision NOT NULL,
  fleets text NOT NULL,
  expires double precision,
  used double precision
);

-- Who asked for what that needs an admin; status is NULL until it is answered.
CREATE TABLE audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  time double precision NOT NULL,
  actor text NOT NULL,
  client text,
  action text NOT NULL,
  fleet text COLLATE "C",
  target text,
  request text,
  status integer
);
CREATE INDEX audit_fleet ON audit (fleet, id);

-- When a service was last seen, and by how much its clock was put forward last: what a start compares its clock with.
CREATE TABLE clock (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  seen double precision NOT NULL,
  settled double precision NOT NULL,
  shift double precision NOT NULL
);

-- Rows of an erased task up to a number that are still there: nobody sees them any more, and they go in slices.
CREATE TABLE erasures (
  fleet bigint NOT NULL,
  task text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  PRIMARY KEY (fleet, task, number)
);
