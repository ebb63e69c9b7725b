//! What should be, from what is: the pure core of the operator.
