-- A key may be for some fleets only (their names, with spaces between; none means all), may expire, and was last used.
ALTER TABLE keys ADD COLUMN fleets text NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN expires double precision;
ALTER TABLE keys ADD COLUMN used double precision;

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
