-- When a service was last seen, and by how much its clock was put forward last: what a start compares its clock with.
CREATE TABLE clock (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  seen double precision NOT NULL,
  settled double precision NOT NULL,
  shift double precision NOT NULL
);
