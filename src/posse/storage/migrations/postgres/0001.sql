-- A fleet without a name was deleted, and its rows are on their way out. Names sort by code point, as in SQLite.
CREATE TABLE fleets (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" UNIQUE,
  definition text NOT NULL,
  time_to_live double precision,
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
CREATE UNIQUE INDEX decisions_key ON decisions (fleet, key) WHERE key IS NOT NULL;

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

CREATE TABLE keys (
  id text COLLATE "C" NOT NULL PRIMARY KEY,
  label text NOT NULL,
  scopes text NOT NULL,
  digest text NOT NULL,
  created double precision NOT NULL
);
