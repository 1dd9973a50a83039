"""posse beside other libraries on the same stream."""
