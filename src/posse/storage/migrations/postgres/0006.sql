-- A fleet takes one reward for a decision (once), adds several up (sum), or goes by the last (last), for reward_window
-- seconds; and a reward may be corrected. What came after the first is a change of its own: number is NULL if it is none,
-- as the first, which is part of its decision's row, or one that came while rewards are held. The decision's row has the
-- reward that counts, and in corrected the number of the last of these changes.
ALTER TABLE fleets ADD COLUMN reward_events text NOT NULL DEFAULT 'once';
ALTER TABLE fleets ADD COLUMN reward_window double precision;
ALTER TABLE decisions ADD COLUMN corrected bigint;
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
UPDATE fleets SET definition = '{"reward_events":"once","reward_window":null,' || substr(definition, 2) WHERE definition <> '{}';
