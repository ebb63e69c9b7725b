//! Days of simulated time with random events and crashes between any two writes.
