-- A fleet with an absent reward counts a decision as that reward from the moment it is made, which is a change of its
-- own (counted), or holds rewards until the time to live is over (count_pending = 0): change stays NULL until then.
ALTER TABLE fleets ADD COLUMN absent_reward REAL;
ALTER TABLE fleets ADD COLUMN count_pending INTEGER NOT NULL DEFAULT 1;
ALTER TABLE decisions ADD COLUMN counted INTEGER;
CREATE INDEX decisions_counted ON decisions (fleet, counted) WHERE counted IS NOT NULL;
CREATE INDEX decisions_held ON decisions (fleet, time, number) WHERE reward IS NOT NULL AND change IS NULL;
UPDATE fleets SET absent_reward = json_extract(definition, '$.absent_reward'),
  definition = '{"count_pending":true,' || substr(definition, 2) WHERE definition <> '{}';
