//! What to do with a caller: the pure core of the doorman.
