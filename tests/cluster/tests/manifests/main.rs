//! What the chart renders, by the real Helm and without a cluster: level H.

mod chart;
mod doorman;
mod install;
mod rights;
mod safety;
mod values;
