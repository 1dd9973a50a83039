-- Rows of an erased task up to a number that are still there: nobody sees them any more, and they go in slices.
CREATE TABLE erasures (
  fleet INTEGER NOT NULL,
  task TEXT NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY (fleet, task, number)
) WITHOUT ROWID;
