-- A fleet takes one reward for a decision (once), adds several up (sum), or goes by the last (last), for reward_window
-- seconds; and a reward may be corrected. What came after the first is a change of its own: number is NULL if it is none,
-- as the first, which is part of its decision's row, or one that came while rewards are held. The decision's row has the
-- reward that counts, and in corrected the number of the last of these changes.
ALTER TABLE fleets ADD COLUMN reward_events TEXT NOT NULL DEFAULT 'once';
ALTER TABLE fleets ADD COLUMN reward_window REAL;
ALTER TABLE decisions ADD COLUMN corrected INTEGER;
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
UPDATE fleets SET definition = '{"reward_events":"once","reward_window":null,' || substr(definition, 2) WHERE definition <> '{}';
