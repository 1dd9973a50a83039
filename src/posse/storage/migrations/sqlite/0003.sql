-- When a service was last seen, and by how much its clock was put forward last: what a start compares its clock with.
CREATE TABLE clock (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  seen REAL NOT NULL,
  settled REAL NOT NULL,
  shift REAL NOT NULL
);
