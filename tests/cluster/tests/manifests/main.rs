//! What the chart renders, by the real Helm and without a cluster: level H.

#[cfg(test)]
mod chart;
#[cfg(test)]
mod doorman;
#[cfg(test)]
mod install;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod safety;
#[cfg(test)]
mod values;
