-- A key may be for some fleets only (their names, with spaces between; none means all), may expire, and was last used.
ALTER TABLE keys ADD COLUMN fleets TEXT NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN expires REAL;
ALTER TABLE keys ADD COLUMN used REAL;

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
