//! The price of a European option: in closed form (Black and Scholes), and on a binomial lattice (Cox, Ross
//! and Rubinstein), which comes nearer to it the more steps it has.

use std::f64::consts::PI;

/// The direction in which an option pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// To buy at the strike.
    Call,
    /// To sell at the strike.
    Put,
}

/// A European option, with what its price depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quote {
    /// Call or put.
    pub(super) side: Side,
    /// The price of the underlying now.
    pub(super) spot: f64,
    /// The price at which it can be bought or sold at the end.
    pub(super) strike: f64,
    /// Interest per year, compounded continuously.
    pub(super) rate: f64,
    /// Of the underlying's logarithm, per year.
    pub(super) volatility: f64,
    /// Years until then.
    pub(super) years: f64,
}

impl Quote {
    /// The price in closed form.
    pub(super) fn black_scholes(&self) -> f64 {
        let deviation = self.deviation();
        let drift = (self.rate + self.volatility * self.volatility / 2.0) * self.years;
        let first = ((self.spot / self.strike).ln() + drift) / deviation;
        let second = first - deviation;
        let present = self.strike * (-self.rate * self.years).exp();
        match self.side {
            Side::Call => self.spot * normal(first) - present * normal(second),
            Side::Put => present * normal(-second) - self.spot * normal(-first),
        }
    }

    /// The deviation of the underlying's logarithm at the end.
    pub(super) fn deviation(&self) -> f64 {
        self.volatility * self.years.sqrt()
    }

    /// Returns how far the price of a lattice of `steps` may be off: 2 / `steps` of the price, which is a
    /// thousandth with 2000 steps and a tenth with 20. It holds where a strike is within a deviation of the
    /// forward price.
    pub(super) fn tolerance(&self, steps: u32) -> f64 {
        self.black_scholes() * 2.0 / f64::from(steps)
    }

    /// The same for any strike. An option far from the money is worth next to nothing, while the lattice's
    /// error falls more slowly: it may be that share of more than half of what the option would be worth at
    /// the money; and of more where interest outruns the deviation.
    pub(super) fn wide_tolerance(&self, steps: u32) -> f64 {
        let drift = self.rate * self.years / self.deviation();
        let near_the_money = self.spot * self.deviation() / 4.0 * (1.0 + drift * drift);
        self.tolerance(steps).max(near_the_money * 2.0 / f64::from(steps))
    }

    /// Returns true if the lattice of this number of steps has probabilities: in one step, interest must earn
    /// less than the price may rise.
    pub(super) fn has_lattice(&self, steps: u32) -> bool {
        self.rate * (self.years / f64::from(steps)).sqrt() < self.volatility
    }

    /// The lattice's constants.
    pub(super) fn lattice(self, steps: u32) -> Lattice {
        let step = self.years / f64::from(steps);
        let up = (self.volatility * step.sqrt()).exp();
        let grown = (self.rate * step).exp();
        let rises = (grown - 1.0 / up) / (up - 1.0 / up);
        Lattice {
            quote: self,
            steps,
            up,
            rises: rises / grown,
            falls: (1.0 - rises) / grown,
        }
    }
}

/// The constants of a lattice's steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lattice {
    quote: Quote,
    /// Steps in time.
    pub(super) steps: u32,
    /// The factor of a rise; a fall is its inverse.
    up: f64,
    /// The probability of a rise, discounted by one step.
    rises: f64,
    /// The same of a fall.
    falls: f64,
}

impl Lattice {
    /// Its payment at the end, from the lowest price of the underlying to the highest.
    pub(super) fn leaves(&self) -> Vec<f64> {
        let Quote {
            side, spot, strike, ..
        } = self.quote;
        let square = self.up * self.up;
        let mut price = spot * self.up.powf(-f64::from(self.steps));
        (0..=self.steps)
            .map(|_| {
                let paid = match side {
                    Side::Call => price - strike,
                    Side::Put => strike - price,
                };
                price *= square;
                paid.max(0.0)
            })
            .collect()
    }

    /// One step back in time: each value is what may be expected of its two successors. The last of them
    /// goes.
    #[inline]
    pub(super) fn back(&self, values: &mut Vec<f64>) {
        for at in 1..values.len() {
            values[at - 1] = self.rises * values[at] + self.falls * values[at - 1];
        }
        values.pop();
    }
}

/// The share of a normal distribution below `x`, by Marsaglia's series.
fn normal(x: f64) -> f64 {
    // Beyond this, the last digits are gone.
    if x.abs() > 8.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut sum, mut term, mut odd) = (x, x, 3.0);
    loop {
        term *= x * x / odd;
        if sum + term == sum {
            break;
        }
        sum += term;
        odd += 2.0;
    }
    0.5 + sum * (-x * x / 2.0).exp() / (2.0 * PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTBOOK: Quote = Quote {
        side: Side::Call,
        spot: 100.0,
        strike: 100.0,
        rate: 0.05,
        volatility: 0.2,
        years: 1.0,
    };

    fn near(found: f64, known: f64, by: f64) {
        assert!((found - known).abs() <= by, "{found}, not {known}");
    }

    fn walked(quote: Quote, steps: u32) -> f64 {
        let lattice = quote.lattice(steps);
        let mut values = lattice.leaves();
        for _ in 0..steps {
            lattice.back(&mut values);
        }
        assert_eq!(values.len(), 1);
        values[0]
    }

    #[test]
    fn the_normal_distribution_has_its_known_values() {
        for (x, share) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (1.96, 0.975_002_104_851_779_5),
            (-3.0, 0.001_349_898_031_630_094_6),
            (9.0, 1.0),
            (-9.0, 0.0),
        ] {
            near(normal(x), share, 1e-14);
        }
    }

    #[test]
    fn the_closed_form_has_its_known_values() {
        near(TEXTBOOK.black_scholes(), 10.450_583_572_185_565, 1e-12);
        let put = Quote {
            side: Side::Put,
            ..TEXTBOOK
        };
        near(put.black_scholes(), 5.573_526_022_256_971, 1e-12);
    }

    #[test]
    fn the_lattice_comes_nearer_with_its_steps() {
        for side in [Side::Call, Side::Put] {
            for strike in [80.0, 100.0, 125.0] {
                let quote = Quote {
                    side,
                    strike,
                    ..TEXTBOOK
                };
                for steps in [20, 200, 2000] {
                    near(
                        walked(quote, steps),
                        quote.black_scholes(),
                        quote.tolerance(steps),
                    );
                }
            }
        }
        near(
            walked(TEXTBOOK, 2000),
            TEXTBOOK.black_scholes(),
            1e-3 * TEXTBOOK.black_scholes(),
        );
    }

    #[test]
    fn any_strike_is_priced_within_the_wide_tolerance() {
        for (volatility, years, rate) in [
            (0.2, 1.0, 0.05),
            (0.05, 3.0, 0.1),
            (1.0, 4.0, 0.0),
            (0.01, 0.01, 0.0),
        ] {
            for deviations in -4_i8..=4 {
                for (side, steps) in [(Side::Call, 20), (Side::Put, 20), (Side::Call, 300)] {
                    let mut quote = Quote {
                        side,
                        rate,
                        volatility,
                        years,
                        ..TEXTBOOK
                    };
                    quote.strike *= (rate * years + f64::from(deviations) * quote.deviation()).exp();
                    near(
                        walked(quote, steps),
                        quote.black_scholes(),
                        quote.wide_tolerance(steps),
                    );
                }
            }
        }
    }

    #[test]
    fn a_lattice_of_one_step_is_computed_by_hand() {
        // Up 1.2214, down 0.8187, a rise has probability 0.5775: 22.14 × 0.5775 × e^-0.05.
        near(walked(TEXTBOOK, 1), 12.1623, 1e-3);
    }

    #[test]
    fn interest_beyond_the_volatility_has_no_lattice() {
        let quote = Quote {
            rate: 0.5,
            volatility: 0.1,
            ..TEXTBOOK
        };
        assert!(!quote.has_lattice(20) && quote.has_lattice(2000));
    }
}
