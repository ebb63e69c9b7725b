//! The operator: watches, decides, applies.
