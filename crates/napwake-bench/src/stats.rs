//! Percentiles. Pure.

use crate::clock::Millis;

/// Times, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Times(Vec<Millis>);

impl Times {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest time that so many in a hundred don't exceed: one that was
    /// measured, never something between two.
    pub(crate) fn percentile(&self, percent: usize) -> Option<Millis> {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.max(1) - 1).copied()
    }

    pub(crate) fn p50(&self) -> Option<Millis> {
        self.percentile(50)
    }

    pub(crate) fn p95(&self) -> Option<Millis> {
        self.percentile(95)
    }

    pub(crate) fn p99(&self) -> Option<Millis> {
        self.percentile(99)
    }

    pub(crate) fn max(&self) -> Option<Millis> {
        self.percentile(100)
    }
}

impl FromIterator<Millis> for Times {
    fn from_iter<I: IntoIterator<Item = Millis>>(times: I) -> Self {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_by(f64::total_cmp);
        Self(times)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1, 50, 1.0)]
    #[case(2, 50, 1.0)]
    #[case(3, 50, 2.0)]
    #[case(40, 95, 38.0)]
    #[case(20, 95, 19.0)]
    #[case(19, 95, 19.0)]
    #[case(200, 95, 190.0)]
    #[case(7, 100, 7.0)]
    #[case(7, 0, 1.0)]
    fn a_percentile_is_a_measured_time(
        #[case] count: i32,
        #[case] percent: usize,
        #[case] expected: Millis,
    ) {
        // The other way round: they are put in order.
        let times: Times = (1..=count).rev().map(f64::from).collect();
        assert_eq!(times.percentile(percent), Some(expected));
    }

    #[test]
    fn of_nothing_there_is_no_percentile() {
        let none = Times::default();
        assert_eq!((none.p50(), none.p95(), none.max()), (None, None, None));
    }
}
