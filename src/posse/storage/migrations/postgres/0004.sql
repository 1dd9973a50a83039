-- Rows of an erased task up to a number that are still there: nobody sees them any more, and they go in slices.
CREATE TABLE erasures (
  fleet bigint NOT NULL,
  task text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  PRIMARY KEY (fleet, task, number)
);
